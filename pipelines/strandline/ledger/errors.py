"""Errors of a ledger. The messages address the user who must act."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline.plan.errors import StrandlineError
from strandline_api.outcome.exit_codes import ExitCode

if TYPE_CHECKING:  # every command loads this module, also those that need no ledger
    from strandline.ledger.records.entries import ListedSource


class LedgerError(StrandlineError):
    """The ledger does not fit this pipeline or can't be read."""

    exit_code = ExitCode.LEDGER_MISMATCH


class LedgerInUseError(LedgerError):
    """A live driver holds the ledger. The condition is temporary."""

    exit_code = ExitCode.LEDGER_IN_USE


class LeaseLostError(LedgerInUseError):
    """Another attempt has taken the ledger over, so this attempt may not write anymore."""


class DuplicateKeyError(StrandlineError, ValueError):
    """Two sources of a listing have the same key."""

    exit_code = ExitCode.BAD_SPEC


class UnknownSourceError(StrandlineError, ValueError):
    """A requested source was not found, for example in quarantine."""

    exit_code = ExitCode.BAD_SPEC


class NonDeterministicTaskError(StrandlineError):
    """A token was settled twice with different children."""

    exit_code = ExitCode.NOT_DETERMINISTIC


class NegativePendingCountError(StrandlineError):
    """A token was settled without an announcement, although no event can have been lost."""

    exit_code = ExitCode.NOT_DETERMINISTIC


def duplicate_of(listed: ListedSource, where: str) -> DuplicateKeyError:
    """Return the error for a duplicate key; `where` describes the earlier listing."""
    return DuplicateKeyError(
        f"the source key {listed.key!r} is listed twice: as item {listed.ordinal} and {where}; "
        "keys must be unique"
    )
