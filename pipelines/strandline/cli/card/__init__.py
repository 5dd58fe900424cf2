"""A data set's card: a README about contents and origin, readable by people and programs.

Only the module `reading` does I/O; this module only reads.
"""
