"""Reports the results of a pass: the status summary, the conditions, and the events.

The package must not depend on how attempts are started or ended.
"""
