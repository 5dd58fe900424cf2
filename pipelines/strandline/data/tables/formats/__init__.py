"""Pushes into tables: the files of a data set become a table's, in one commit for each revision.

A module for each format, and no other knows its library. What they share is pure: `changes`.
"""
