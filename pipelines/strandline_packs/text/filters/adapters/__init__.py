"""Adapters that run steps of other libraries as stages. Users install these libraries."""
