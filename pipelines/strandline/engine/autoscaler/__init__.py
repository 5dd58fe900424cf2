"""A pure planner: how many workers each stage should have, and where, based on measurements.

The planner decides, but starts and ends nothing. It must not know Ray, clocks, or what a stage
does.
"""
