"""Measures functions and steps of other libraries that run as stages."""
