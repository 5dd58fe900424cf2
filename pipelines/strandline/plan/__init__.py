"""Pipelines as data: tasks, stages, tokens, shapes, and the checks before a run.

This package is the lowest layer of the runtime. The package must not depend on disks, ledgers, Ray,
or the command line.
"""
