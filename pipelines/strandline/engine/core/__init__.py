"""What every engine shares: what waits where, how much is admitted, which worker is next.

It must not know Ray, nor how a call is made.
"""
