"""A Ray that runs only on this machine: its start, and signals that arrive during the start."""
