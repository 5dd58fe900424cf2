"""Entry points for kopf: start, stop, and events of Strandline's two kinds.

This package makes no decisions.
"""
