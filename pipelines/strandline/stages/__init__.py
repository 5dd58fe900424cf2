"""The stages that come with Strandline, one file each.

A stage knows tasks and its parameters; it must not know the ledger, the engine or the run.
"""
