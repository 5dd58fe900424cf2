"""What filters have marked: rows by reason, and how many each limit takes.

It must not know how that is shown.
"""
