"""Tests the abilities that a node must have, in sequence."""
