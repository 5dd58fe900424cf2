"""A program of each product for each job, as the product's own documentation has it.

Each runs in its product's environment and loads that alone: nothing of Strandline is there.
"""
