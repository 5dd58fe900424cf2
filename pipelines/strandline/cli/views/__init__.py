"""Views for people and machines: they turn a snapshot into text.

Only the reporter does I/O: it prints. The package must not read a store or a disk.
"""
