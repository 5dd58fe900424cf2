"""Reports of a pass: summary of the status, conditions, and events.

The package must not know how an attempt is started or ended.
"""
