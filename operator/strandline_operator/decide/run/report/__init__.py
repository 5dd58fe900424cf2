"""Reports of a pass: summary of the status, conditions, and events.

The package must not depend on the way an attempt is started or ended.
"""
