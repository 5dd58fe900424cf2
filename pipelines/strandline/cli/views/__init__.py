"""Views for people and machines: they turn a snapshot into text.

All modules are pure except the reporter, which prints. The package must not read a store or a disk.
"""
