"""The folder of a pipeline: its layout, locks, publications, and work in flight.

It must not know what a ledger holds.
"""
