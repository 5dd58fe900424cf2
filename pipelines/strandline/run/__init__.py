"""Runs attempts: opens volume and ledger, runs the engine, and reports the outcome.

The package prints nothing and must not depend on the command line.
"""
