"""Connects to servers: the Kubernetes API, and drivers. No other package sends requests."""
