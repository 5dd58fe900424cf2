"""The queues, groups, and suspects of a run, as data.

The package must not depend on the code that runs a stage.
"""
