"""The folder of a pipeline: taken over for an attempt, with the place of its outputs."""
