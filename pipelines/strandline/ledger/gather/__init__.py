"""What each source added to a summary, merged on the way, and verified.

It must not know what is summarised.
"""
