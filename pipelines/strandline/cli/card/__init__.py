"""A data set's card: a README about contents and origin, readable by people and programs.

Pure except `reading`, which only reads.
"""
