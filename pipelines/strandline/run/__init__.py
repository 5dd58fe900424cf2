"""One attempt from plan to outcome: volume and ledger opened, engine run, ending named.

It joins the rooms below; it prints nothing and parses no command line.
"""
