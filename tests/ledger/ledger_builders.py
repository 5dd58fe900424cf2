"""Builders of sources, events, and ledgers, from which the tests of the ledger start."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Never

from strandline.ledger.access.lease import Claim, Claimant, OnChange
from strandline.ledger.records.entries import (
    Change,
    Finish,
    ListedSource,
    Mark,
    QuarantinedSource,
    SourceRecord,
)
from strandline.ledger.store.store import INITIAL_MAP, Store
from strandline.ledger.writer.writer import LedgerWriter
from strandline.plan.fingerprint import Fingerprint
from strandline.plan.receipt import Event, Failure, Output
from strandline.plan.token import derive_root, digest_key, digest_version
from strandline.storage.errors import VolumeError
from strandline.storage.outputs.ports import OutputGroup
from strandline.storage.volume.locks import Process


@contextmanager
def opened(path: Path, *, readonly: bool = False, map_size: int = INITIAL_MAP) -> Iterator[Store]:
    """Open the ledger in a folder, and close it at the end."""
    store = Store(path, readonly=readonly, map_size=map_size)
    try:
        yield store
    finally:
        store.close()


def listed(key: str, version: str = "1", ordinal: int = 0) -> ListedSource:
    """Return a source as a listing yields it."""
    return ListedSource(digest_key(key), digest_version(version), key, ordinal)


def root_of(source: ListedSource) -> bytes:
    """Return the token of a source's root task."""
    return derive_root(source.source, source.version)


def output_of(source: ListedSource, suffix: str = ".txt") -> Output:
    """Return the output of a sink for the only task of a source."""
    return Output(root_of(source), suffix, 3, b"d" * 16, 1)


def written(source: ListedSource, *outputs: Output) -> Event:
    """Return the event that follows the announcement of a source with a single task."""
    return Event(source.source, (root_of(source),), (), outputs)


def failed(source: ListedSource, message: str = "no such codec") -> Failure:
    """Return a stage's failure for a source."""
    return Failure(source.source, source.key, root_of(source), "decode", message)


def counts(
    finished: int = 0, failed: int = 0, inflight: int = 0, quarantined: int = 0
) -> dict[str, int]:
    """Return the number of sources in each state, in the format of `Store.count`."""
    return {
        "finished": finished,
        "failed": failed,
        "inflight": inflight,
        "quarantined": quarantined,
    }


def finish_of(source: ListedSource, *outputs: Output) -> Finish:
    """Return the change that finishes a source in the ledger."""
    return Finish(source.source, source.version, SourceRecord(source.key, outputs))


def claim(
    pipeline: str = "default/clips", on_change: OnChange = OnChange.FAIL, **parts: Any
) -> Claim:
    """Return a claim, which a ledger must match, with a fingerprint of these parts."""
    return Claim(pipeline, "run-1", Fingerprint(repr(sorted(parts.items())), parts), on_change)


def claimant(uid: str = "a", boot: str = "boot-1", pid: int = 100, time: float = 0.0) -> Claimant:
    """Return a process that claims the ledger."""
    return Claimant(uid, boot, Process(pid, pid * 10), time)


@dataclass
class Clock:
    """A clock that advances by `step` at each reading, and otherwise only on request."""

    time: float = 0.0
    step: float = 0.0

    def __call__(self) -> float:
        self.time += self.step
        return self.time


@dataclass
class RecordingOutputs:
    """An output store that only logs requests."""

    log: list[Any] = field(default_factory=list)
    is_broken: bool = False

    def open_aside(self, folder: str) -> Never:
        raise NotImplementedError

    def remove_others(self, source: bytes, keep: Collection[str]) -> int:
        if self.is_broken:
            msg = "out: the volume is mounted read-only"
            raise VolumeError(msg)
        self.log.append(("remove_others", source, sorted(keep)))
        return 0

    def grouped(self) -> AbstractContextManager[OutputGroup]:
        raise NotImplementedError

    def list_names(self) -> Iterator[tuple[str, int]]:
        raise NotImplementedError

    def digest(self, name: str) -> bytes:
        raise NotImplementedError

    def has(self, name: str, size: int) -> bool:
        raise NotImplementedError

    def list_shared(self) -> list[str]:
        raise NotImplementedError

    def remove_shared(self, name: str) -> None:
        raise NotImplementedError

    def open_shared(self, name: str) -> AbstractContextManager[BinaryIO]:
        raise NotImplementedError

    def sweep(self, owner: str) -> int:
        raise NotImplementedError


class RecordingStore(Store):
    """A store that also logs its durable changes."""

    def __init__(self, path: Path, log: list[Any]) -> None:
        self.log: list[Any] = []
        super().__init__(path)
        self.log = log

    def write(self, change: Change) -> None:
        super().write(change)
        for kind in ("mark", "finish", "fail", "quarantine"):
            names = [item[0] for item in getattr(change, kind)]
            if names:
                self.log.append((kind, *names))
        if change.forget:
            self.log.append(("forget", *change.forget))


@dataclass
class Desk:
    """A writer with its ledger, a clock that does not advance, and outputs that log requests."""

    store: RecordingStore
    outputs: RecordingOutputs
    clock: Clock
    writer: LedgerWriter
    log: list[Any]

    def next_attempt(
        self, attempt: int, *, deletes_vanished: bool = False, quarantine_after: int = 3
    ) -> LedgerWriter:
        """Start a later attempt on the same ledger, and return its writer."""
        self.log.clear()
        self.store.take_lease({"attempt": attempt, "uid": "a"})
        self.writer = LedgerWriter(
            self.store,
            self.outputs,
            attempt,
            self.clock,
            quarantine_after=quarantine_after,
            deletes_vanished=deletes_vanished,
        )
        return self.writer

    def fail_in(
        self, source: ListedSource, *attempts: int, quarantine_after: int = 3
    ) -> LedgerWriter:
        """Make the source fail in each of these attempts, and return the last writer."""
        for attempt in attempts:
            writer = self.next_attempt(attempt, quarantine_after=quarantine_after)
            writer.admit([source])
            writer.apply(1, [], [failed(source)])
            writer.commit()
        return self.writer

    def find_quarantined(self, source: ListedSource) -> QuarantinedSource | None:
        """Return the quarantine entry of a source, or None."""
        return self.store.find_quarantined([source.source]).get(source.source)

    def find_mark(self, source: ListedSource) -> Mark:
        """Return the mark of a source in flight."""
        return self.store.find_marks([source.source])[source.source]
