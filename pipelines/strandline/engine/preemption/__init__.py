"""Consequences of departing nodes: what a death is blamed on, and which sources start again. Pure.

The package must not know Ray, nor how a node's death or notice is detected.
"""
