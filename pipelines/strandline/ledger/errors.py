"""Errors of a ledger. The messages address the user who must act."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline.plan.errors import StrandlineError
from strandline_api.outcome.exit_codes import ExitCode

if TYPE_CHECKING:  # every command loads this module, also those that need no ledger
    from strandline.ledger.records.entries import ListedSource


class LedgerError(StrandlineError):
    """Raised if the ledger does not fit this pipeline or can't be read."""

    exit_code = ExitCode.LEDGER_MISMATCH


class LedgerInUseError(LedgerError):
    """Raised if a live driver holds the ledger. The condition is temporary."""

    exit_code = ExitCode.LEDGER_IN_USE


class LeaseLostError(LedgerInUseError):
    """Raised if another attempt has taken over the ledger, so that writes are forbidden."""


class DuplicateKeyError(StrandlineError, ValueError):
    """Raised if two sources of a listing have the same key."""

    exit_code = ExitCode.BAD_SPEC


class UnknownSourceError(StrandlineError, ValueError):
    """Raised if a requested source was not found, for example in quarantine."""

    exit_code = ExitCode.BAD_SPEC


class NonDeterministicTaskError(StrandlineError):
    """Raised if a token was settled twice with different children."""

    exit_code = ExitCode.NOT_DETERMINISTIC


class NegativePendingCountError(StrandlineError):
    """Raised if a token was settled but not announced, although no event can have been lost."""

    exit_code = ExitCode.NOT_DETERMINISTIC


def duplicate_of(listed: ListedSource, where: str) -> DuplicateKeyError:
    """Return the error for a duplicate key; `where` describes the earlier listing."""
    return DuplicateKeyError(
        f"the source key {listed.key!r} is listed twice: as item {listed.ordinal} and {where}; "
        "keys must be unique"
    )
