"""What drivers and their logs report, and when they are asked.

It must not know what follows from what they report.
"""
