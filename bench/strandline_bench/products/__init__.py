"""Alternatives on one machine: products for whole jobs, and libraries for single stages."""
