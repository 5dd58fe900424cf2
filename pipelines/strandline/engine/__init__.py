"""Runs a plan: `inline` in this process, or `ray` on pools of actors. One result whichever runs.

It moves tasks and receipts. What a receipt means for a source is the ledger's to say. Only `ray`
knows Ray.
"""
