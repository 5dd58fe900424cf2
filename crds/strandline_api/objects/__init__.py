"""The two API kinds, `CurationPipeline` and `CurationAttempt`, with metadata, spec, and status.

This package must not depend on the programs that write specs or statuses.
"""
