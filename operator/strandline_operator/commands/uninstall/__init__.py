"""Uninstallation of the operator: pipelines with its finalizer, and remaining objects."""
