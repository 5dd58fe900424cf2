"""What people and machines read: a snapshot in, text out.

Pure but for the reporter that prints. It must not ask a store or a disk.
"""
