"""A run as one self-contained HTML page: facts, charts, and the page.

Pure except `reading`, which reads ledger, attempts and publications and changes nothing.
"""
