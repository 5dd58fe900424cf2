"""The stored status of a run: phases, conditions, reasons, and records.

This package must not depend on how a status is decided.
"""
