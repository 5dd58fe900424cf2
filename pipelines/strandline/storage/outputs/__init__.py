"""Outputs that are whole or absent, on disks and in object stores, and their owners.

It must not know what a source is.
"""
