"""WARC files: records, bodies, and what damage leaves of them."""
