"""Claims and their volumes: made, found wanting, or attached elsewhere."""
