"""Whether a data set is complete: the ledger's answer, for every gate that readers stand behind.

An attempt says how its own work ended, and that may be a part: a retry of dead letters works on few
sources, and commands set finished sources back. So `latest`, `publish.to`, `push`, `after`, cards
and reports all ask here.
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
    """Gaps between a ledger and a complete data set; numbers are of sources, but for `missing`.

    Attributes:
        is_listed: the last listing has come to its end.
        unfinished: released or set back, and neither finished nor failed since.
        failed: failed in an attempt, and not tried again.
        quarantined: in quarantine; how many a pipeline tolerates is its own to say.
        older: finished by an older recipe, and due to be replaced.
        missing: outputs that are not there, or have another size.
        first_missing: a sentence about the first of them.
    """

    is_listed: bool
    unfinished: int = 0
    failed: int = 0
    quarantined: int = 0
    older: int = 0
    missing: int = 0
    first_missing: str = ""

    def list_sentences(self) -> Iterator[str]:
        """Yield a sentence for each kind of gap but quarantine, with what closes it."""
        again = "run the pipeline to its end"
        if not self.is_listed:
            yield f"the last listing of sources has not come to its end; {again}"
        if self.unfinished:
            yield f"{_count(self.unfinished)} unfinished; {again}"
        if self.failed:
            what = "1 source has" if self.failed == 1 else f"{self.failed:,} sources have"
            yield f"{what} failed; correct them, or what they fail in, and {again}"
        if self.older:
            yield f"{_count(self.older)} as an older recipe made them; {again}"
        if self.missing:
            more = f", and {self.missing - 1:,} more" if self.missing > 1 else ""
            yield f"{self.first_missing}{more}; a run with `--missing` makes them again"


def find_gaps(store: Store, outputs: OutputStore | None = None) -> Gaps:
    """Return what a data set lacks.

    Args:
        outputs: where its files lie; None: they are not looked at.

    Raises:
        LedgerError, VolumeError: ledger or outputs can't be read.
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
    # An older release did not note that a listing began.
    return store.read_meta("listed") is not None and not store.read_meta(LISTING)


def _count_due(store: Store) -> int:
    settled, recipes = store.read_meta(SETTLED), read_recipes(store)
    # An older release noted nothing, and published mixtures without asking.
    if settled is None or not recipes or settled == recipes[-1].since:
        return 0
    return count_older(store)


def _count(number: int) -> str:
    return "1 source is" if number == 1 else f"{number:,} sources are"
