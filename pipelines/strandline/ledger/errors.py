"""What can be wrong with a ledger, in the words of the person who must act."""


class LedgerError(Exception):
    """The ledger does not fit this pipeline or can't be read (exit code 65)."""


class LeaseLostError(LedgerError):
    """Another attempt has taken the ledger over; nothing more may be written by this one."""


class DuplicateKeyError(ValueError):
    """Two sources of a listing have the same key (exit code 64)."""
