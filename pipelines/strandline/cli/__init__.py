"""The command line: parses arguments, prints results, and returns exit codes.

The package calls the packages below, shows their results, and makes no decisions about sources or
ledgers.
"""
