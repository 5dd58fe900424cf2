"""Commands of the pack."""
