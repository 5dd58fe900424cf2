"""What is kept of attempts: their records, and samples of their progress.

It must not know how an attempt is run.
"""
