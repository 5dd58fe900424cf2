"""The commands, by what they are about: runs, pipelines, and what runs have left.

Each reads its options, asks the rooms below and hands what they say to a view.
"""
