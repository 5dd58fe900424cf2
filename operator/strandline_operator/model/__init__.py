"""The operator's observations and plans, as plain data."""
