"""A node seen from the machine: its lifetime and its leftovers."""
