"""Decisions about a run: next attempt, start time, memory, and reports.

Pure. Each decider receives a pass and the decisions of earlier deciders, and returns a verdict.
"""
