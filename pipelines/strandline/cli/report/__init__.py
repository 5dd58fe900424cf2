"""Renders a run as one self-contained HTML page with charts.

All modules are pure except `reading`, which reads ledger, attempts, and publications and changes
nothing.
"""
