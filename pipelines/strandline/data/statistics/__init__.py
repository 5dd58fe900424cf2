"""Summaries that can be joined: what was learnt of two parts becomes what is true of the whole.

Pure: numbers and strings in, numbers out. A summary is a value; `+` joins two of them, in any
order and grouping, and the empty one changes nothing. It must not know stages, tables, files, or
how a summary is stored; each one spells itself as plain lists and is made of them again.
"""
