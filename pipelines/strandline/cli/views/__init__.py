"""Views for people and machines: a snapshot in, text out.

Pure except the reporter, which prints. The package must not read a store or a disk.
"""
