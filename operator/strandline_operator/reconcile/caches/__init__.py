"""Caches that passes share to reduce requests to the API server.

Each cache may be cleared at any time. The package must not depend on the decisions of passes.
"""
