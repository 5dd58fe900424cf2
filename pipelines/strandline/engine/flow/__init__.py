"""Queues, groups, and suspects of a run, as data.

The package must not know what runs a stage.
"""
