"""What is told of a run: phases, conditions, reasons and records, as they are stored.

It must not know how any of it is decided.
"""
