"""Pushes a data set in one piece: to a folder, a store, a hub, or a table."""
