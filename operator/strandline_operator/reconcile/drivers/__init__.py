"""Reports of drivers and their logs, and when to request them.

The package must not depend on the effects of a report.
"""
