"""The command line: words of a shell in, sentences and exit codes out.

It asks the rooms below and shows what they say; it decides nothing about sources or ledgers.
"""
