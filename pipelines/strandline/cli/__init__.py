"""The command line: arguments in, sentences and exit codes out.

The package calls the packages below and shows their results. It makes no decisions about sources or
ledgers.
"""
