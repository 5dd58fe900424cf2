"""Commands that start, stop, or monitor a run."""
