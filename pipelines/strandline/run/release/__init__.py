"""Releases finished outputs to readers: the gate, the list of files, moves, and pushes."""
