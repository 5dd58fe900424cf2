"""The built-in packs, a package for each kind of data, with their stages.

A stage works only with tasks and its parameters. Stages must not depend on the ledger, the engine,
or the run.
"""
