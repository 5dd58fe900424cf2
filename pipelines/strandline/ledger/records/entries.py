"""Entries of a ledger, as values.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from strandline.plan.receipt import Effort, Output, Piece, RowChange

# Results of `admit` for a source. For a suspect, the result is `RELEASED` plus the number of
# sources in the group that is suspected with it.
QUARANTINED, SKIPPED, RELEASED = -1, 0, 1
# Added to the result for a source that failed in an earlier attempt. Larger than any group.
HAS_FAILED = 1 << 40
# Interval between lease renewals. After `LAPSE_SECONDS` without one, the holder counts as dead.
RENEWAL_SECONDS = 15.0
LAPSE_SECONDS = 4 * RENEWAL_SECONDS
# Key in `meta` for digests of the manifest beside the outputs. Changes of sources delete the entry.
LISTED = "listed outputs"
# Key in `meta` for the attempt whose listing has not ended, or 0 if the last listing has ended.
LISTING = "listing"
# Key in `meta` for the latest settled recipe, named by its first attempt. A recipe is settled if
# all finished sources of older recipes were replaced or need no replacement. 0 if replacements are
# due.
SETTLED = "settled recipe"


class ListedSource(NamedTuple):
    """A listed source: key digest (16 bytes), version digest (8 bytes), key, and position."""

    source: bytes
    version: bytes
    key: str
    ordinal: int


class Standing(NamedTuple):
    """Source counts of an attempt by outcome, after a drain.

    Attributes:
        finished: sources finished by this attempt.
        skipped: sources that an earlier attempt had finished.
        failed: sources that failed in this attempt.
        unfinished: open sources, whose work was lost or stopped.
        removed: sources that are no longer listed and were removed.
        quarantined: listed sources in quarantine, placed there by this or an earlier attempt.
    """

    finished: int
    skipped: int
    failed: int
    unfinished: int
    removed: int
    quarantined: int = 0


class RemovalPolicy(NamedTuple):
    """Policy for removing finished sources that a listing no longer has.

    Attributes:
        everywhere: remove all missing sources.
        within: folders, as prefixes of keys, in which missing sources are removed.
        part_suffix: regular expression for the end of a key that names a part of a file. If a file
            is listed, its missing parts are removed.
    """

    everywhere: bool = False
    within: tuple[str, ...] = ()
    part_suffix: str = ""


class SourceRecord(NamedTuple):
    """The record of a finished source.

    Attributes:
        outputs: files written for the source.
        pieces: pieces gathered from the source.
        efforts: work done for the source, if recorded.
        changes: changes in the number of rows, by stage.
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
    """Return a record without the cuts of some stages."""
    outputs = (each for each in record.outputs if each.cut is None or each.cut[0] not in stages)
    return record._replace(outputs=tuple(outputs))


def measure_cuts(record: SourceRecord) -> dict[str, int]:
    """Return how many bytes a source's cuts have, by stage."""
    sizes: dict[str, int] = {}
    for output in record.outputs:
        if output.cut is not None:
            sizes[output.cut[0]] = sizes.get(output.cut[0], 0) + output.size
    return sizes


class Mark(NamedTuple):
    """A source in flight: released to an attempt, and not yet finished or failed.

    Attributes:
        key: the source's key.
        version: 8-byte digest of the source's version.
        attempt: the attempt that released the source.
        ordinal: position in that attempt's listing, for messages.
        is_stale: True if an earlier attempt or version may have left outputs.
        failed_before: number of attempts in which the source failed or killed a process that had no
            other work.
        exposed: number of sources that workers were processing when a process died, including this
            source. 0 means
            that the source is not suspected; 1 means that it was alone.
    """

    key: str
    version: bytes
    attempt: int
    ordinal: int
    is_stale: bool
    failed_before: int = 0
    exposed: int = 0


class FailureRecord(NamedTuple):
    """A failed source: last failure, number of failed attempts, and version."""

    key: str
    attempt: int
    stage: str
    message: str
    times: int
    version: bytes = b""

    def __repr__(self) -> str:
        # Notebooks print results, and the digest of a version is useless to readers.
        shown = {name: value for name, value in self._asdict().items() if name != "version"}
        return f"FailureRecord({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class QuarantinedSource(NamedTuple):
    """A source in quarantine: not tried again until its version changes or a user releases it.

    Attributes:
        key: the source's key.
        version: 8-byte digest of the tried version.
        attempt: the last attempt in which the source failed.
        cause: cause in the vocabulary of `strandline_api`.
        stage: stage of the last failure, or empty if a process died.
        message: reason of the last failure.
        times: number of attempts in which the source failed.
    """

    key: str
    version: bytes
    attempt: int
    cause: str
    stage: str
    message: str
    times: int


class FinishedEntry(NamedTuple):
    """Index entry of a finished source: 8-byte digest of its version, and the finishing attempt."""

    version: bytes
    attempt: int


class SharedFile(NamedTuple):
    """A file that contains rows of several sources.

    Attributes:
        suffix, size, digest, rows: properties of the whole file.
        live: number of rows that records of finished sources name.
        companions: suffix, size, and digest of files with the same name and another suffix.
    """

    suffix: str
    size: int
    digest: bytes
    rows: int
    live: int
    companions: tuple[tuple[str, int, bytes], ...] = ()

    def list_files(self) -> Iterator[tuple[str, int, bytes]]:
        """Yield suffix, size, and digest of the file and of its companions."""
        yield self.suffix, self.size, self.digest
        yield from self.companions


class Finish(NamedTuple):
    """A source to be recorded as finished."""

    source: bytes
    version: bytes
    record: SourceRecord


@dataclass(slots=True)
class Change:
    """Changes that one transaction applies to the ledger.

    Attributes:
        finish: sources that become finished; their marks and failures are deleted.
        mark: sources that become in flight; all earlier entries are deleted.
        fail: sources that become failed; their marks are deleted.
        quarantine: sources that become quarantined; their marks and failures are deleted.
        forget: sources whose entries are all deleted.
        replaced: sources of `finish` that were finished before.
        forgiven: finished sources for which the failure of a replacement is deleted.
        untidy: finished sources whose folders may contain leftovers of earlier tries.
        tidy: sources of `untidy` whose leftovers have been removed.
        rewrite: finished sources with new records, because their rows have moved.
        gathered: generation (see `ledger.gather`) up to which all pieces were gathered, or None.
        meta: names and JSON-compatible values to set.
    """

    finish: list[Finish] = field(default_factory=list)
    mark: list[tuple[bytes, Mark]] = field(default_factory=list)
    fail: list[tuple[bytes, FailureRecord]] = field(default_factory=list)
    quarantine: list[tuple[bytes, QuarantinedSource]] = field(default_factory=list)
    forget: list[bytes] = field(default_factory=list)
    replaced: list[bytes] = field(default_factory=list)
    forgiven: list[bytes] = field(default_factory=list)
    untidy: list[bytes] = field(default_factory=list)
    tidy: list[bytes] = field(default_factory=list)
    rewrite: list[Finish] = field(default_factory=list)
    gathered: int | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    def add_failure(self, source: bytes, failed: QuarantinedSource, after: int) -> None:
        """Record a failure, or quarantine the source if it has failed in `after` attempts.

        Args:
            failed: the failure, in the form of a quarantined source.
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
    """State of a source."""

    FINISHED = "finished"
    FAILED = "failed"
    INFLIGHT = "inflight"
    QUARANTINED = "quarantined"


class Row(NamedTuple):
    """A source as shown to users.

    Attributes:
        version: digest of the version in hex; empty for failures recorded by older releases.
        attempt: the attempt that finished or released the source, or in which it last failed.
        outputs: for each file, its name relative to the output root, bytes, rows, and hex digest.
            For a shared file, the bytes and rows of this source only, and the index of its first
            row.
        stage, message, times: stage and reason of the last failure, and number of failed attempts.
            The stage is empty if a process died while it worked on the source.
        cause: cause of a quarantined source, in the same vocabulary as causes of attempts.
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
    """Work of a stage on a finished source; see `Effort`."""

    key: str
    attempt: int
    stage: str
    rows_in: int
    rows_out: int
    seconds: float
    size: int
