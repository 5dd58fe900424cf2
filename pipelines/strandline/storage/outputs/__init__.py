"""Outputs that are complete or absent, on disks and in object stores, and their owners.

The package must not depend on sources.
"""
