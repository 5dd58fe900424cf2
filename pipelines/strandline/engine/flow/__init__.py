"""What waits where: queues, groups, and suspects of a run, as data.

It must not know what runs a stage.
"""
