"""What a user writes: the pipeline's fields, their defaults and what they may be.

It must not know what became of a run.
"""
