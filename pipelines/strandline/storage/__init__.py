"""Files and folders: durable writes, renames, locks and what a volume can bear.

It knows bytes and names. It does not know what a source, a ledger or a retry is.
"""
