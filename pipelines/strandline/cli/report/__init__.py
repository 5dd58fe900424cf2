"""Renders a run as one self-contained HTML page with charts.

Only the module `reading` does I/O: it reads ledger, attempts, and publications, and changes
nothing.
"""
