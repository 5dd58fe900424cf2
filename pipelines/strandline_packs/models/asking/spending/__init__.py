"""What requests cost: the account that all workers of a pipeline share, its rates and its budget.

It must not know what is asked, nor how a request travels.
"""
