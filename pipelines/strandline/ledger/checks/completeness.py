"""Decides from the ledger whether a data set is complete, before any reader gets the data.

An attempt reports only its own work, which may be a fraction of the data set: a retry of dead
letters processes few sources, and commands can make finished sources unfinished. Therefore
`latest`, `publish.to`, `push`, `after`, cards, and reports all use this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from strandline.ledger.checks.counts import count_sources
from strandline.ledger.checks.verification import count_missing
from strandline.ledger.records.entries import LISTING, SETTLED
from strandline.ledger.store.recipes import count_older, read_recipes
from strandline.ledger.store.store import Store
from strandline.storage.outputs.ports import OutputStore


class Gaps(NamedTuple):
    """Gaps between a ledger and a complete data set. All numbers except `missing` count sources.

    Attributes:
        is_listed: True if the last listing has reached its end.
        unfinished: sources that were released or made unfinished again, and have neither finished
            nor failed since.
        failed: sources that failed in an attempt and were not retried.
        quarantined: sources in quarantine. Each pipeline has its own limit for them.
        older: sources finished by an older recipe and due for replacement.
        missing: outputs that are absent or have the wrong size.
        first_missing: a sentence about the first missing output.
    """

    is_listed: bool
    unfinished: int = 0
    failed: int = 0
    quarantined: int = 0
    older: int = 0
    missing: int = 0
    first_missing: str = ""

    def list_sentences(self) -> Iterator[str]:
        """Yield a sentence with a remedy for each kind of gap except quarantine."""
        again = "run the pipeline to its end"
        if not self.is_listed:
            yield f"the last listing of sources is incomplete; {again}"
        if self.unfinished:
            yield f"{_count(self.unfinished)} unfinished; {again}"
        if self.failed:
            what = "1 source has" if self.failed == 1 else f"{self.failed:,} sources have"
            yield f"{what} failed; correct them or the failing stage, and {again}"
        if self.older:
            yield f"{_count(self.older)} made with an older recipe; {again}"
        if self.missing:
            more = f", and {self.missing - 1:,} more" if self.missing > 1 else ""
            yield f"{self.first_missing}{more}; a run with `--missing` restores the outputs"


def find_gaps(store: Store, outputs: OutputStore | None = None) -> Gaps:
    """Return the gaps of a data set.

    Args:
        outputs: store of the data set's files, or None to skip the check of the files.

    Raises:
        LedgerError, VolumeError: if the ledger or the outputs can't be read.
    """
    states = count_sources(store)
    return Gaps(
        _has_listed(store),
        states["inflight"],
        states["failed"],
        states["quarantined"],
        _count_due(store),
        *((0, "") if outputs is None else count_missing(store, outputs)),
    )


def _has_listed(store: Store) -> bool:
    # Older releases recorded only the end of a listing (`listed`), not the start.
    return store.read_meta("listed") is not None and not store.read_meta(LISTING)


def _count_due(store: Store) -> int:
    settled, recipes = store.read_meta(SETTLED), read_recipes(store)
    # No source is due for replacement if the last recipe is settled. Older releases did not record
    # this, and their mixtures of recipes count as complete.
    if settled is None or not recipes or settled == recipes[-1].since:
        return 0
    return count_older(store)


def _count(number: int) -> str:
    return "1 source is" if number == 1 else f"{number:,} sources are"
