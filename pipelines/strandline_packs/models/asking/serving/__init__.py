"""Model servers that a worker starts for itself: their commands, supervision and restarts.

The package must not depend on the requests or their rows.
"""
