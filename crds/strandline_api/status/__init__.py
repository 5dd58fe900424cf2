"""The stored status of a run: phases, conditions, reasons, and records.

This package must not know how any of them is decided.
"""
