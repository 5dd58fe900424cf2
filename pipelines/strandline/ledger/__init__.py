"""Which sources are finished, provably: the counting law, its bytes on disk, and the order of both.

It knows tokens, keys and outputs. It does not know stages, engines or how work is scheduled.
"""
