"""What an attempt publishes, and whether readers are led to it.

Pure but for `publisher`, which writes, and `measures`, which looks.
"""
