"""Starts a driver for a command, and defines the request that the driver receives."""
