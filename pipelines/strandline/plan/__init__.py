"""What a pipeline is: tasks, stages, tokens, shapes and the checks made before anything runs.

The lowest room of the runtime. It knows nothing of disks, ledgers, Ray or the command line.
"""
