"""What a pipeline brings along to be imported: archives and packages, fetched and installed.

It must not know what the code does.
"""
