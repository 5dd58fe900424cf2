"""Decisions about a run: the next attempt, its start time, its memory, and reports.

The package is pure. Each decider receives a pass and the results of earlier deciders, and returns a
verdict.
"""
