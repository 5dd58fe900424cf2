"""Compares the FineWeb recipe with that of datatrove."""
