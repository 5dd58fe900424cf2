"""The ledger of finished sources: the counting law, its storage, and the order of changes.

The package works with tokens, keys, and outputs. It must not depend on stages, engines, or
scheduling.
"""
