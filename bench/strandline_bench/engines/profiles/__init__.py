"""Profiles of the engine and of stages."""
