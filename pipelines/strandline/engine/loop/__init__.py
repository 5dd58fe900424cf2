"""The loop that drives a run, and its port to the processes in which stages work.

An engine chooses a transport and a ledger. All engines share the loop, the order of its turns, the
dispatch of calls to pools of workers, and the consequences of a lost worker.
"""
