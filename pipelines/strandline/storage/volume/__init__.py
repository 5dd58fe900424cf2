"""The folder of a pipeline: locks, publications, logs, and work in flight.

The package must not depend on the content of a ledger.
"""
