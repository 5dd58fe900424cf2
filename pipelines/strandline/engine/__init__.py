"""Engines run a plan: `inline` in this process, `processes` on local workers, `ray` on actors.

All three produce the same result. An engine moves tasks and receipts; the ledger decides what a
receipt means for a source. Only `ray` imports Ray.
"""
