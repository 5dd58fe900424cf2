"""Why an attempt ended: causes, evidence, exit codes, and a driver's last line.

This package must not depend on the consequences of an end.
"""
