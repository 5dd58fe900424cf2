"""The commands, grouped by subject: runs, pipelines, and data.

A command reads its options, calls the packages below, and passes their results to a view.
"""
