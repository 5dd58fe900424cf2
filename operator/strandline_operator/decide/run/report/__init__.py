"""What is reported of a pass: the status in summary, its conditions, and events.

It must not know how an attempt is brought about or ended.
"""
