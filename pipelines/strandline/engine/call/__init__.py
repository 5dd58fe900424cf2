"""One call of a stage in a worker, with the user's code in the middle.

Whatever that code does, its task gets an answer. It must not know flows or ledgers.
"""
