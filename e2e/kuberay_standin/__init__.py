"""A test component that runs RayJobs with real pods, as KubeRay did in recordings.

The stand-in supports K8sJobMode as far as recordings of KubeRay v1.7.0 cover it, and rejects other
modes with a sentence in the RayJob's status. This package must not depend on the purpose of
RayJobs.

    python -m kuberay_standin --kubeconfig FILE

`step` in `core` makes all decisions: from the current objects and the time, it returns actions.
`loop` observes and acts; only `api` and `dashboard` talk to servers. Tests run `Loop` on an
in-memory server, and record Kueue with it on a real API server. `kubelet` has the pod statuses for
clusters without a kubelet.
"""
