"""Logic of `kubectl strandline`: objects in; manifests, patches and sentences out.

Pure except `kubectl.py`, which runs the user's kubectl, and `claim_job.py`, which sequences the
calls. The package must not know how commands are called, or what runs on a volume.
"""
