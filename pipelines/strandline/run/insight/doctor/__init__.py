"""What `strandline doctor` finds out: facts, probes, and what they mean.

It must not run a pipeline.
"""
