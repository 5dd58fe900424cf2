"""The engine on Ray actors: one pool of workers per chain of stages, and the ledger in an actor.

The package must not decide when a source is finished.
"""
