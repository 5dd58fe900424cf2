"""Uninstalls the operator: handles pipelines with its finalizer, and reports what remains."""
