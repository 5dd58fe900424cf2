"""One call of a stage in a worker, including the user's code.

Whatever that code does, every task gets a result. The package must not depend on flows or ledgers.
"""
