"""Takes over the folder of a pipeline for an attempt, together with the place of its outputs."""
