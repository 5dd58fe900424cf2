"""The code in a worker's process: stages that are set up, calls to these stages, and limits.

The package must not depend on queues, other workers, or the code that started the process.
"""
