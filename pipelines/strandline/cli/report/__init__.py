"""A run as one page of HTML that needs nothing else: facts, charts of them, and the page.

Pure but for `reading`, which looks at ledger, attempts and publications and changes nothing.
"""
