"""Shipments: data sets that are pushed as a whole, with their files, bytes, and refusals."""
