"""The folder of a pipeline: layout, locks, publications, and work in flight.

The package must not depend on the content of a ledger.
"""
