"""The listing of an attempt: the sources of its pipeline, or groups of sources."""
