"""The sources of a pipeline: the current listing, and what the ledger has recorded.

The module must not depend on rows.
"""

from __future__ import annotations

from typing import NamedTuple

from strandline.ledger.records.entries import SourceRecord, SourceState
from strandline.ledger.store.recipes import Changes, Recipe, read_recipes
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.stages.ends import Source
from strandline.plan.token import digest_key, digest_version
from strandline.run.trace.source_search import show_payload
from strandline.run.trace.steps import TracedSource

_CHANGED = "the source has changed since attempt {}, so its stages are not run again"
_UNLISTED = "the source is no longer listed, so its stages are not run again"
_REPLACED = "the source stage has changed since attempt {}, so no stage is run again"
_LATEST = 1 << 62  # an attempt after all others


class SourceFacts(NamedTuple):
    """A source for a trace.

    Attributes:
        traced: the source as shown.
        source: the listed source if its stages can run again, or None.
        until: the first stage that has changed since the source was finished, or None.
        record: the record if the source is finished.
    """

    traced: TracedSource
    source: Source | None
    until: str | None
    record: SourceRecord | None


class SourceRecords:
    """The sources of a pipeline.

    Args:
        plan: the current pipeline.
        store: the ledger.
        listed: the current sources by key.
        problem: why the sources can't be listed, or an empty text.

    Attributes:
        store, listed: the arguments.
    """

    def __init__(
        self, plan: PipelinePlan, store: Store, listed: dict[str, Source], problem: str
    ) -> None:
        self._plan, self.store, self.listed, self._problem = plan, store, listed, problem
        parts, growing = plan.fingerprint.parts, sorted(plan.fingerprint.growing)
        self._changes = Changes([*read_recipes(store), Recipe(_LATEST, parts, growing)])

    def has(self, key: str) -> bool:
        """Return whether a source is listed, or finished."""
        digest = digest_key(key)
        return key in self.listed or digest in self.store.find_finished([digest])

    def read(self, key: str) -> SourceFacts:
        """Return the facts about a source."""
        digest, source = digest_key(key), self.listed.get(key)
        payload = {} if source is None else show_payload(source)
        entry = self.store.find_finished([digest]).get(digest)
        if entry is None:
            return SourceFacts(self._read_unfinished(key, digest, payload), source, None, None)
        record = self.store.find_records([digest])[digest]
        until, message = self._changes.find_first(entry.attempt), ""
        if source is None:
            message = self._problem or _UNLISTED
        elif digest_version(source.version) != entry.version:
            message = _CHANGED.format(entry.attempt)
        elif until == self._plan.source.name:
            message = _REPLACED.format(entry.attempt)
        traced = TracedSource(key, SourceState.FINISHED, entry.attempt, payload, message)
        return SourceFacts(traced, None if message else source, until, record)

    def _read_unfinished(self, key: str, digest: bytes, payload: object) -> TracedSource:
        shown = dict(payload) if isinstance(payload, dict) else {}
        failure = self.store.find_failures([digest]).get(digest)
        if failure is not None and failure.times:
            why = f"{failure.stage}: {failure.message}"
            return TracedSource(key, SourceState.FAILED, failure.attempt, shown, why)
        quarantined = self.store.find_quarantined([digest]).get(digest)
        if quarantined is not None:
            why = f"{quarantined.stage}: {quarantined.message}"
            state = SourceState.QUARANTINED
            return TracedSource(key, state, quarantined.attempt, shown, why)
        mark = self.store.find_marks([digest]).get(digest)
        if mark is not None:
            return TracedSource(key, SourceState.INFLIGHT, mark.attempt, shown)
        return TracedSource(key, payload=shown)
