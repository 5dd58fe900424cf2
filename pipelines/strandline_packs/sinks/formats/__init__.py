"""Encodes rows in the file formats of other programs.

This package converts rows to bytes and does not access files.
"""
