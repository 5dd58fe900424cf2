"""Processes finished sources again: redo, cuts, marks, dead letters, and repair."""
