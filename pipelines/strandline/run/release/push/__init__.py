"""Pushes a data set as a whole to a folder, a store, a hub, or a table."""
