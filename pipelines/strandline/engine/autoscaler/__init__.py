"""How many workers each stage should have, and where: a pure planner over what was measured.

It decides; it starts and ends nothing. It must not know Ray, clocks, or what a stage does.
"""
