"""The sections of the report's page, from top to bottom.

Pure: facts in, markup out.
"""
