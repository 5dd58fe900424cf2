"""Logic of `kubectl strandline`: reads cluster objects; renders manifests, patches, and sentences.

All modules are pure except `kubectl.py`, which runs the user's kubectl, and `claim_job.py`, which
sequences the calls. The package must not depend on the way commands are called, or on the programs
that run on a volume.
"""
