"""Why an attempt ended: causes, evidence, exit codes, and a driver's last line.

This package must not know what follows.
"""
