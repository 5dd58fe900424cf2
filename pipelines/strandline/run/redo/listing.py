"""Finished sources of an older recipe: from which cut each goes on, and a listing of them.

It must not know what works on them, nor how.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from strandline.engine.core.odd_sources import identify
from strandline.engine.core.ports import ADMIT_BATCH, Listing
from strandline.ledger.entries import FinishedEntry, SourceRecord
from strandline.ledger.lease import Claim
from strandline.ledger.store.recipes import Changes, Recipe, add_recipe, read_recipes
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.receipt import Output
from strandline.plan.stage import Source
from strandline.run.redo.kept_rows import KeptFile
from strandline.storage.outputs.names import name_output


class Survey(NamedTuple):
    """Finished sources of an older recipe.

    Attributes:
        starts: how many go on from each cut, by its stage; None: from the beginning.
        first: how many, by the first stage that has changed.
        refused: those that are in quarantine, since they could not be replaced.
    """

    starts: Counter[str | None]
    first: Counter[str]
    refused: int = 0

    @property
    def total(self) -> int:
        """All that are not refused."""
        return self.starts.total()


def read_changes(store: Store, plan: PipelinePlan) -> Changes | None:
    """Return where the last recipe differs from earlier ones; None: nowhere."""
    recipes = read_recipes(store)
    if len(recipes) < 2:  # noqa: PLR2004 - one differs from none
        return None
    changes = Changes(recipes, plan.fingerprint.growing)
    return changes if changes.is_any else None


def survey(store: Store, changes: Changes) -> Survey:
    """Count the finished sources of an older recipe."""
    starts: Counter[str | None] = Counter()
    first: Counter[str] = Counter()
    quarantined = {source for source, _ in store.list_quarantined()}
    refused = 0
    for source, entry, record in store.list_records():
        changed = changes.find_first(entry.attempt)
        if changed is None:
            continue
        if source in quarantined:
            refused += 1
            continue
        first[changed] += 1
        starts[find_start(changes, entry, record)] += 1
    return Survey(starts, first, refused)


def preview(store: Store, claim: Claim) -> Survey | None:
    """Count what a run by a pipeline would redo; None: nothing."""
    recipes = read_recipes(store)
    growing = claim.fingerprint.growing
    then = add_recipe(recipes, claim.own_parts, growing, sys.maxsize)
    changes = Changes([Recipe(**each) for each in then], growing)
    return survey(store, changes) if changes.is_any else None


def find_start(changes: Changes, entry: FinishedEntry, record: SourceRecord) -> str | None:
    """Return the stage behind whose cut a source goes on; None: it begins at the beginning."""
    unchanged = changes.list_unchanged(entry.attempt) or ()
    cuts = {output.cut[0] for output in record.outputs if output.cut}
    return next((stage for stage in reversed(unchanged) if stage in cuts), None)


class RedoListing(Listing):
    """The sources of a listing that are finished by an older recipe, and go on from one cut.

    Args:
        listing: all sources.
        open_store: opens the ledger for a look.
        changes: where recipes differ.
        start: the stage behind whose cut they go on; None: at the beginning.
        location: folder or URL of the outputs.
        tag: tells tokens, and so names of outputs, from those of every older recipe.
    """

    def __init__(
        self,
        listing: Listing,
        open_store: Callable[[], AbstractContextManager[Store]],
        changes: Changes,
        start: str | None,
        location: str,
        tag: str,
    ) -> None:
        super().__init__(self._list(), lambda: False)
        self._all = listing
        self._open_store = open_store
        self._changes = changes
        self._start = start
        self._root = location.rstrip("/")
        self._tag = tag

    def close(self) -> None:
        super().close()
        self._all.close()

    def _list(self) -> Iterator[Source]:
        while True:
            sources = self._all.draw_sources(ADMIT_BATCH)
            yield from self._choose(sources)
            if self._all.is_ended:
                return

    def _choose(self, sources: list[Source]) -> list[Source]:
        listed = [(identify(source, 0), source) for source in sources]
        digests = [each.source for each, _ in listed]
        with self._open_store() as store:
            entries, records = store.find_finished(digests), store.find_records(digests)
            quarantined = store.find_quarantined(digests)
        chosen = []
        for (digest, version, *_), source in listed:
            entry, record = entries.get(digest), records.get(digest)
            # A source that has changed since is not finished, and begins as any other.
            if entry is None or record is None or entry.version != version:
                continue
            if digest in quarantined or self._changes.find_first(entry.attempt) is None:
                continue
            if find_start(self._changes, entry, record) == self._start:
                chosen.append(self._make(source, digest, record))
        return chosen

    def _make(self, source: Source, digest: bytes, record: SourceRecord) -> Source:
        data = source.data
        if self._start is not None:
            cut = [
                (output.cut[1], KeptFile(self._locate(digest, output), output.digest))
                for output in record.outputs
                if output.cut and output.cut[0] == self._start
            ]
            data = [file for _, file in sorted(cut)]
        return Source(source.key, f"{source.version} by {self._tag}", data)

    def _locate(self, source: bytes, output: Output) -> str:
        return f"{self._root}/{name_output(source, output)}"
