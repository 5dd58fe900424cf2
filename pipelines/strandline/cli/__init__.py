"""The command line: arguments in, sentences and exit codes out.

The package calls the packages below, shows their results, and makes no decisions about sources or
ledgers.
"""
