"""The contract that the cluster side and the data side of Strandline both sign.

Names, exit codes, causes and the meaning of every field of the API live here; both sides import
it, and it imports neither of them. Its modules are imported one by one: a worker that knows the
causes need not load what a manifest is made of.
"""
