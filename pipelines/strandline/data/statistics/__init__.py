"""Mergeable summaries: summaries of parts combine into a summary of the whole.

This package computes numbers from numbers and strings, and does no I/O. A summary is a value; `+`
joins two summaries, in any order and grouping, and the empty summary is neutral. The package must
not depend on stages, tables, files, or the storage of summaries. Every summary can be dumped to
plain lists and parsed from them.
"""
