"""Infrastructure of all commands: the program, shared options, signals, and output for machines.

The package must not depend on the purpose of any command.
"""
