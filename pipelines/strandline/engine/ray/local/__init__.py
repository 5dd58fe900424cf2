"""Starts a Ray instance that runs only on this machine, and handles signals during the start."""
