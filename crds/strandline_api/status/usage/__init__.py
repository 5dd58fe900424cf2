"""Resources that a run has used up: retries, time, and work."""
