"""Describes why an attempt ended: causes, evidence, exit codes, and the driver's outcome line.

This package must not depend on what follows the end of an attempt.
"""
