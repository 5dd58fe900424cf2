"""What befalls a run from outside, done as it happens there."""
