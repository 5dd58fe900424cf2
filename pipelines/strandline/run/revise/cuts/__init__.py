"""Cuts: kept outputs of stages, and plans that start after a cut."""
