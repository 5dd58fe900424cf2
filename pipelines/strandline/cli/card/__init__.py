"""A data set's card: what is in it and how it came about, as a README that programs read too.

Pure but for `reading`, which looks and changes nothing.
"""
