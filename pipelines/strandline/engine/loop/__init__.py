"""The loop that drives a run, and its port to the processes in which stages work.

An engine chooses a transport and a ledger. All engines share the loop, the order of its steps, the
dispatch of calls to pools of workers, and the handling of lost workers.
"""
