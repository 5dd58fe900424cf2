"""A worker's process: stages that are set up, the calls to them, and limits of both.

It must not know queues, other workers, or what started the process.
"""
