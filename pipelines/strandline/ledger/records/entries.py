"""Entries of a ledger, as values. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from strandline.plan.receipt import Effort, Output, Piece, RowChange

# Answers of `admit` about a source. Above `RELEASED`: by the size of a suspect's crowd.
QUARANTINED, SKIPPED, RELEASED = -1, 0, 1
# Added for one that failed in an attempt before; no crowd is as large.
HAS_FAILED = 1 << 40
# Between two signs of life of a lease's holder, and without one until it counts as dead.
RENEWAL_SECONDS = 15.0
LAPSE_SECONDS = 4 * RENEWAL_SECONDS
# The name in `meta` of what is known of the list beside the outputs, for as long as that holds.
LISTED = "listed outputs"
# The name in `meta` of the attempt with a listing that is not at its end; 0: that of the last is.
LISTING = "listing"
# The name in `meta` of the recipe, by its first attempt, up to which finished sources of older
# recipes were replaced or are to stay; 0: some are due.
SETTLED = "settled recipe"


class ListedSource(NamedTuple):
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


class RemovalPolicy(NamedTuple):
    """Which finished sources go that a listing does not name.

    Attributes:
        everywhere: all of them.
        within: sources with keys in these folders, as keys begin.
        part_suffix: regular expression of what a key ends in that names a part of a file; those of
            files that are listed.
    """

    everywhere: bool = False
    within: tuple[str, ...] = ()
    part_suffix: str = ""


class SourceRecord(NamedTuple):
    """A finished source.

    Attributes:
        outputs: what was written for it.
        pieces: what was gathered of it.
        efforts: by how much work, where that is asked for.
        changes: stages that changed the number of its rows, and how.
    """

    key: str
    outputs: tuple[Output, ...]
    pieces: tuple[Piece, ...] = ()
    efforts: tuple[Effort, ...] = ()
    changes: tuple[RowChange, ...] = ()

    @property
    def data(self) -> tuple[Output, ...]:
        """Return the outputs that the sink has written for readers."""
        return tuple(output for output in self.outputs if output.is_data)

    def count_dead(self) -> dict[str, int]:
        """Count the dead letters by the stage in which they failed."""
        counts: dict[str, int] = {}
        for output in self.outputs:
            if output.dead_stage is not None:
                counts[output.dead_stage] = counts.get(output.dead_stage, 0) + output.rows
        return counts


def drop_cuts(record: SourceRecord, stages: Collection[str]) -> SourceRecord:
    """Return a record without the files of some stages' cuts."""
    outputs = (each for each in record.outputs if each.cut is None or each.cut[0] not in stages)
    return record._replace(outputs=tuple(outputs))


def measure_cuts(record: SourceRecord) -> dict[str, int]:
    """Return the bytes of a source's cuts, by stage."""
    sizes: dict[str, int] = {}
    for output in record.outputs:
        if output.cut is not None:
            sizes[output.cut[0]] = sizes.get(output.cut[0], 0) + output.size
    return sizes


class Mark(NamedTuple):
    """A source in flight: released to an attempt and neither finished nor failed by it.

    Attributes:
        key: the source's key.
        version: 8-byte digest of its version.
        attempt: the attempt that released it.
        ordinal: its place in that attempt's listing, for messages.
        is_stale: an earlier attempt or version may have left outputs behind.
        failed_before: attempts in which it failed, or ended a process that had nothing else to do.
        exposed: sources that were with workers when a process died over this one, itself included;
            0: it is not suspected, 1: it was alone.
    """

    key: str
    version: bytes
    attempt: int
    ordinal: int
    is_stale: bool
    failed_before: int = 0
    exposed: int = 0


class FailureRecord(NamedTuple):
    """A source that failed: when last, where, why, in how many attempts, and in which version."""

    key: str
    attempt: int
    stage: str
    message: str
    times: int
    version: bytes = b""

    def __repr__(self) -> str:
        # People print results in notebooks, where the digest of a version says nothing.
        shown = {name: value for name, value in self._asdict().items() if name != "version"}
        return f"FailureRecord({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class Quarantined(NamedTuple):
    """A source in quarantine: not tried again until its version changes or it is released.

    Attributes:
        key: the source's key.
        version: 8-byte digest of the version that was tried.
        attempt: the last one in which it failed.
        cause: a word of the API's list of causes.
        stage: where it failed last; empty where a process died over it.
        message: why.
        times: attempts in which it failed.
    """

    key: str
    version: bytes
    attempt: int
    cause: str
    stage: str
    message: str
    times: int


class FinishedEntry(NamedTuple):
    """What the index says of a finished source: 8 bytes of its version, the finishing attempt."""

    version: bytes
    attempt: int


class SharedFile(NamedTuple):
    """A file that holds rows of several sources.

    Attributes:
        suffix, size, digest, rows: of the whole file.
        live: rows of it that records of finished sources name.
        companions: suffix, size and digest of the files that have its name but for the suffix.
    """

    suffix: str
    size: int
    digest: bytes
    rows: int
    live: int
    companions: tuple[tuple[str, int, bytes], ...] = ()

    def list_files(self) -> Iterator[tuple[str, int, bytes]]:
        """Yield suffix, size and digest of the file and of its companions."""
        yield self.suffix, self.size, self.digest
        yield from self.companions


class Finish(NamedTuple):
    """A source to be recorded as finished."""

    source: bytes
    version: bytes
    record: SourceRecord


@dataclass(slots=True)
class Change:
    """What one transaction does to the ledger.

    Attributes:
        finish: sources that become finished; their marks and failures go.
        mark: sources that come into flight; what was known of them before goes.
        fail: sources that become failed; their marks go.
        quarantine: sources that become quarantined; their marks and failures go.
        forget: sources of which nothing is kept.
        replaced: sources of `finish` that were finished before.
        forgiven: finished sources with failures of a try to replace them; these go.
        untidy: finished sources with folders in which earlier tries may have left something.
        tidy: those of them with nothing of that left.
        rewrite: finished sources with other records than they had, since their rows lie elsewhere.
        gathered: a generation (see `ledger.gathering`); what belongs to it or to one before was
            gathered; None: nothing was.
        meta: names and JSON-able values to set.
    """

    finish: list[Finish] = field(default_factory=list)
    mark: list[tuple[bytes, Mark]] = field(default_factory=list)
    fail: list[tuple[bytes, FailureRecord]] = field(default_factory=list)
    quarantine: list[tuple[bytes, Quarantined]] = field(default_factory=list)
    forget: list[bytes] = field(default_factory=list)
    replaced: list[bytes] = field(default_factory=list)
    forgiven: list[bytes] = field(default_factory=list)
    untidy: list[bytes] = field(default_factory=list)
    tidy: list[bytes] = field(default_factory=list)
    rewrite: list[Finish] = field(default_factory=list)
    gathered: int | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    def add_failure(self, source: bytes, failed: Quarantined, after: int) -> None:
        """Have a source fail, or be quarantined where it has failed in so many attempts.

        Args:
            failed: what is known of it, as of one in quarantine.
        """
        if failed.times >= after:
            self.quarantine.append((source, failed))
            return
        key, version, attempt, _, stage, message, times = failed
        record = FailureRecord(key, attempt, stage, message, times, version)
        self.fail.append((source, record))

    def __bool__(self) -> bool:
        changes = (self.finish, self.mark, self.fail, self.quarantine, self.forget, self.meta)
        more = (self.forgiven, self.untidy, self.tidy, self.rewrite)
        return any((*changes, *more)) or self.gathered is not None


class SourceState(StrEnum):
    """Where a source stands."""

    FINISHED = "finished"
    FAILED = "failed"
    INFLIGHT = "inflight"
    QUARANTINED = "quarantined"


class Row(NamedTuple):
    """One source.

    Attributes:
        version: hex of its version's digest; empty where an older release noted a failure.
        attempt: the one that finished it, that it failed in last, or that released it.
        outputs: name below the output's root, bytes, rows and hex digest of each file; of one that
            sources share the source's bytes and rows, and the number of its first row.
        stage, message, times: where and why it failed last, and in how many attempts. The stage is
            empty where a process died over it.
        cause: of a quarantined one, in the word that attempts use too.
    """

    key: str
    state: str
    version: str
    attempt: int
    outputs: list[dict[str, Any]]
    stage: str | None = None
    message: str | None = None
    times: int | None = None
    cause: str | None = None


class SourceEffort(NamedTuple):
    """What a stage did for a finished source; see `Effort`."""

    key: str
    attempt: int
    stage: str
    rows_in: int
    rows_out: int
    seconds: float
    size: int
