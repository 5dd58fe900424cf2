"""Our engine and others on the same work."""
