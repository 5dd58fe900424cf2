"""Kueue: labels, objects, and messages. Only the list of schedulers imports this package."""
