"""Reports of drivers and their logs, and when to request them.

The package must not know what follows from a report.
"""
