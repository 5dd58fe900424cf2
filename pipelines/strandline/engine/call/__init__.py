"""Runs a call of a stage in a worker, including the user's code.

Every task gets a result, even if the user's code fails. The package must not depend on flows or
ledgers.
"""
