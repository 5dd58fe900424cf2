"""Parts that all engines share: queue bounds, admission, and the choice of the next worker.

The package must not depend on Ray or on how a call is made.
"""
