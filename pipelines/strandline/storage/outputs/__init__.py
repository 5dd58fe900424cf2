"""Outputs that are whole or absent, on disks and in object stores, and whose they are.

It must not know what a source is.
"""
