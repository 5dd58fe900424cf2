"""Tables of Delta, Iceberg and Lance at one version: their data files, and the rows of each.

A module for each format, and no other knows its library. What they give is a `TableSnapshot`.
"""
