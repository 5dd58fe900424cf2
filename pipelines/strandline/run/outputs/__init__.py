"""Outputs as a run finds them: those of other pipelines, and its own that are to be rewritten."""
