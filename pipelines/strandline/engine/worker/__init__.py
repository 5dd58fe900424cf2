"""A worker's process: stages that are set up, calls to these stages, and limits of both.

The package must not know queues, other workers, or what started the process.
"""
