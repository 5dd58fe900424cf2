"""Takes over the folder of a pipeline, and the location of its outputs, for an attempt."""
