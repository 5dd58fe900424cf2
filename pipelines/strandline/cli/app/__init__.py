"""How a command is called: the program, shared options, signals and output for machines.

It must not know what any one command does.
"""
