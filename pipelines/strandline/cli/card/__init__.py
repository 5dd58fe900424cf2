"""A data set's card: a README about contents and origin, readable by people and programs.

All modules are pure except `reading`, which only reads.
"""
