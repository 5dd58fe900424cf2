"""What a keeper is told of a listing, and what it answers. Plain data."""

from __future__ import annotations

from typing import NamedTuple

# What `admit` says of a source. Above `RELEASED`: by how much is the crowd of a suspect.
PARKED, SKIPPED, RELEASED = -1, 0, 1
# Added for one that failed in an attempt before; no crowd is as large.
HAS_FAILED = 1 << 40


class Listed(NamedTuple):
    """A listed source as the ledger sees it: digests of key (16) and version (8), key, place."""

    source: bytes
    version: bytes
    key: str
    ordinal: int


class Standing(NamedTuple):
    """How the sources of an attempt stand after a drain.

    Attributes:
        finished: sources finished by this attempt.
        skipped: sources that an earlier attempt had finished.
        failed: sources that failed in this attempt.
        unfinished: sources still open: work in flight was lost or stopped.
        removed: sources that are no longer listed and were cleaned away.
        quarantined: listed sources that are in quarantine, from this attempt or before.
    """

    finished: int
    skipped: int
    failed: int
    unfinished: int
    removed: int
    quarantined: int = 0
