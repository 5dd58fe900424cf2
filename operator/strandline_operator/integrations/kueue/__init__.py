"""Support for Kueue: labels, objects, and messages. Only `schedulers.py` imports this package."""
