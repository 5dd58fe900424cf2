"""Files and folders: durable writes, renames, locks, and file systems.

The package works with bytes and names. It must not depend on sources, ledgers, or retries.
"""
