"""Pipelines as data: tasks, stages, tokens, shapes, and the checks before a run.

The lowest package of the runtime. It must not know disks, ledgers, Ray, or the command line.
"""
