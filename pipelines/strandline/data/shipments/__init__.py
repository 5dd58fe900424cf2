"""Shipments: data sets that are pushed as a whole, with their files, and errors of pushes."""
