"""The parent of a driver: starts it, watches it, names its end and answers questions.

It must not know what a source is.
"""
