"""Kueue: its labels, its objects, and its words. Only the list of schedulers imports this room."""
