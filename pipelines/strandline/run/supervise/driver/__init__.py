"""The process of a driver: how its supervisor starts, observes, and reuses it."""
