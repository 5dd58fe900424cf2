"""Logic of `kubectl strandline`: reads cluster objects; renders manifests, patches, and sentences.

Only `kubectl.py`, which runs the user's kubectl, and `claim_job.py`, which orders the calls, do
I/O. The package must not depend on the way commands are called, or on the programs that run on a
volume.
"""
