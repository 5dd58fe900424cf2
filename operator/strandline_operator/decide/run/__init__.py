"""What is decided of a run: which attempt follows, when, with how much memory, and what is told.

Pure. Each decider is given a pass and what the ones before have decided, and gives a verdict.
"""
