"""A test part: runs RayJobs with real pods, as KubeRay was recorded to, where none is installed.

It plays K8sJobMode, and of that what recordings of KubeRay v1.7.0 show. It rejects other
modes with a sentence in the RayJob's status. It must not know the purpose of RayJobs.

    python -m kuberay_standin --kubeconfig FILE

`step` in `core` is all of it that decides: from the objects that are there, and the time, to what
is to be done. `loop` looks and does; no other room but `api` and `dashboard` talks to a server.
Tests run `Loop` on a server in memory, and record Kueue with it on a real API server. `kubelet` has
the pod statuses for clusters without a kubelet.
"""
