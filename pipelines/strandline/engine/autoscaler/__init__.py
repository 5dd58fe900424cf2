"""A pure planner: how many workers each stage should have, and where, based on measurements.

The planner decides, but starts and ends nothing. The package must not depend on Ray, on clocks, or
on the work of a stage.
"""
