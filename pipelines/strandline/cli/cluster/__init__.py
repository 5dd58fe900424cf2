"""What `kubectl strandline` asks of a cluster: objects in, manifests, patches and sentences out.

Pure, but for `kubectl.py`, which runs the user's own kubectl, and `claim_job.py`, which asks it in
an order. This room must not know how commands are called, nor what runs on a volume.
"""
