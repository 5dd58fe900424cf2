"""Consequences of departing nodes: what a death is blamed on, and which sources start again. Pure.

The package must not depend on Ray, or on the detection of deaths and notices.
"""
