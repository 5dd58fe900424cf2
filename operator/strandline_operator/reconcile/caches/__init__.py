"""Caches that passes share to reduce requests to the API server.

Each cache may be emptied at any time. The package must not know the decisions of passes.
"""
