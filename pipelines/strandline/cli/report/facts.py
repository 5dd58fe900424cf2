"""What a report says, as plain data: it knows neither where that was read nor how it is drawn.

Lists are cut where a page would grow with the run; what they are cut from is counted exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from strandline.cli.views.attempt import AttemptView
from strandline.cli.views.snapshot import Snapshot
from strandline.ledger.entries import FailureRecord, Mark, Parked
from strandline.run.history.samples import Samples

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Cut(Generic[Item]):
    """The first items of a list, and how many there are in all."""

    items: tuple[Item, ...] = ()
    count: int = 0

    @property
    def more(self) -> int:
        """How many are not among the items."""
        return max(0, self.count - len(self.items))


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """What the ledger says.

    Attributes:
        size: bytes on disk.
        listed: by the last listing that came to its end; None without one.
        finished: sources.
        failed_in: how many failed in which stage.
    """

    size: int = 0
    listed: int | None = None
    finished: int = 0
    failed_in: Mapping[str, int] = field(default_factory=dict)
    failures: Cut[FailureRecord] = field(default_factory=Cut)
    parked: Cut[Parked] = field(default_factory=Cut)
    inflight: Cut[Mark] = field(default_factory=Cut)


class SourceCounts(NamedTuple):
    """How the sources stand.

    Attributes:
        listed: None where no listing has come to its end.
        finished: those below and others that are no longer listed.
        finished_now, skipped: of the finished ones, by the last attempt and before it.
        waiting: listed ones of which nothing else is known.
    """

    listed: int | None = None
    finished: int = 0
    finished_now: int = 0
    skipped: int = 0
    failed: int = 0
    quarantined: int = 0
    inflight: int = 0
    waiting: int = 0


class StageFacts(NamedTuple):
    """What went through a stage by the word of a publication; None: not said."""

    name: str
    numbers: Mapping[str, float | None]
    counters: Cut[tuple[str, int]]


class LatestFacts(NamedTuple):
    """The publication that readers are to take."""

    name: str
    attempt: int
    time: float | None
    is_final: bool
    is_pinned: bool
    files: Cut[tuple[str, int]]
    stages: tuple[StageFacts, ...]


class Artifact(NamedTuple):
    """A file of a stage's statistics.

    Attributes:
        name: below `latest/artifacts`.
        content: what its JSON says; None where it is no JSON, or too large to be shown.
    """

    name: str
    size: int
    content: Any


class StageArtifacts(NamedTuple):
    """What a stage has gathered, and how it wants to be shown.

    Attributes:
        panel: a fragment of HTML by the stage's own code, which nobody has checked.
        problem: why there is no panel, where there should be one.
    """

    stage: str
    artifacts: Cut[Artifact]
    panel: str | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """All that a report says.

    Attributes:
        pipeline: `namespace/name`.
        run: the pipeline's `runId`.
        time: when this was read, seconds since the epoch.
        folder: of the pipeline, on its volume.
        ledger: None before there is one.
        attempts: the newest ones, oldest first.
        samples: by number of attempt.
        live: the running attempt by its own word a moment ago; None where none says any.
    """

    pipeline: str
    run: str
    time: float
    folder: str
    ledger: LedgerFacts | None = None
    attempts: Cut[AttemptView] = field(default_factory=Cut)
    latest: LatestFacts | None = None
    samples: Mapping[int, Samples] = field(default_factory=dict)
    artifacts: tuple[StageArtifacts, ...] = ()
    live: Snapshot | None = None

    @property
    def last(self) -> AttemptView | None:
        """The newest attempt."""
        return self.attempts.items[-1] if self.attempts.items else None

    def count_sources(self) -> SourceCounts:
        """How the sources stand, by the ledger and the last attempt."""
        ledger, last, live = self.ledger or LedgerFacts(), self.last, self.live
        outcome = last.record.outcome if last else None
        finished_now = min(last.finished, ledger.finished) if last else 0
        skipped = live.skipped if live else outcome.sources.skipped if outcome else 0
        listed = live.listed if live and live.is_listed else ledger.listed
        failed, parked = ledger.failures.count, ledger.parked.count
        inflight = ledger.inflight.count
        done = skipped + finished_now + failed + parked + inflight
        return SourceCounts(
            listed,
            ledger.finished,
            finished_now,
            min(skipped, ledger.finished - finished_now),
            failed,
            parked,
            inflight,
            max(0, (listed or 0) - done),
        )
