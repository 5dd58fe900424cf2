"""WARC files: records, bodies, and recovery from damage."""
