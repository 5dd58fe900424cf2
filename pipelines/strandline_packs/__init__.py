"""The packs that come with Strandline: its stages, one package for each kind of data.

A stage knows tasks and its parameters; it must not know the ledger, the engine or the run.
"""
