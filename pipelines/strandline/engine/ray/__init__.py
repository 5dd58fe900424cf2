"""The engine on Ray's actors: a pool of workers a stage, and the ledger in an actor.

It must not know what makes a source finished.
"""
