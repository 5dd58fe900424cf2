"""Requests reports and logs from drivers.

The package must not depend on what follows from a report.
"""
