"""Keeps answers, and finds them by their requests: on a disk, or in a store."""
