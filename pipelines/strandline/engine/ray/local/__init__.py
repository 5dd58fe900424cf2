"""A Ray for this machine only: its start, and signals that arrive during the start."""
