"""Plans how many workers each stage should have, and on which nodes, based on measurements.

The planner makes decisions, but starts and ends no workers. The package must not depend on Ray, on
clocks, or on the work of a stage.
"""
