"""A Ray of this machine alone: its start, and the signals that come meanwhile."""
