"""The loop that drives a run, and its port to the processes in which stages work.

An engine chooses a transport and a ledger; the loop, the order of its turns, the calls to pools of
workers, and the meaning of a lost worker are the same for all.
"""
