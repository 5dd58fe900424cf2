"""Parts that all engines share: queue bounds, admission, and the choice of the next worker.

The package must not know Ray, nor how a call is made.
"""
