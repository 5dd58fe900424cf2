"""Facts for a report, as plain data. The module must not depend on how facts are read or drawn.

Lists that would grow with the run contain only the first items, with an exact count of all items.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from strandline.cli.views.attempt import AttemptStanding, AttemptSummary
from strandline.cli.views.running.snapshot import Snapshot
from strandline.data.statistics.request_figures import RequestFigures
from strandline.ledger.checks.counts import FinishedCounts, StageTotals
from strandline.ledger.records.entries import FailureRecord, Mark, QuarantinedSource
from strandline.run.attempt.failures import FailureGroup
from strandline.run.insight.funnel import Cost
from strandline.run.insight.samples import Samples
from strandline_api.outcome.driver_outcome import SourceCounts

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Cut(Generic[Item]):
    """The first items of a list, and the number of all items."""

    items: tuple[Item, ...] = ()
    count: int = 0

    @property
    def more(self) -> int:
        """Number of items that are left out."""
        return max(0, self.count - len(self.items))


@dataclass(frozen=True, slots=True)
class Kinds:
    """Sources grouped by similar messages.

    Attributes:
        groups: groups, the largest first.
        ungrouped: number of sources that are in no group because there are too many groups.
    """

    groups: tuple[FailureGroup, ...] = ()
    ungrouped: int = 0


@dataclass(frozen=True, slots=True)
class RunLedger:
    """Facts from the ledger.

    Attributes:
        size: bytes on disk.
        listed: number of sources in the last complete listing; None if there is none.
        finished: number of finished sources.
        finished_by: number of finished sources by the attempt that finished them last.
        failed_in: number of failed sources by stage.
        failures_by_kind, quarantine_by_kind: sources by reason.
        counts: files and rows of finished sources.
        dead_by_kind: dead letters by reason.
        failed_by, inflight_of: number of failed and of released sources by attempt.
        gaps: differences from a complete data set, one sentence each.
    """

    size: int = 0
    listed: int | None = None
    finished: int = 0
    finished_by: Mapping[int, int] = field(default_factory=dict)
    failed_in: Mapping[str, int] = field(default_factory=dict)
    failures_by_kind: Kinds = field(default_factory=Kinds)
    quarantine_by_kind: Kinds = field(default_factory=Kinds)
    counts: FinishedCounts = field(default_factory=FinishedCounts)
    dead_by_kind: Kinds = field(default_factory=Kinds)
    failed_by: Mapping[int, int] = field(default_factory=dict)
    inflight_of: Mapping[int, int] = field(default_factory=dict)
    failures: Cut[FailureRecord] = field(default_factory=Cut)
    quarantine: Cut[QuarantinedSource] = field(default_factory=Cut)
    inflight: Cut[Mark] = field(default_factory=Cut)
    gaps: tuple[str, ...] = ()


class SourceTotals(NamedTuple):
    """Sources by state. A source is in exactly one state, so the states add up to the total.

    Attributes:
        listed: number of listed sources; None before a complete listing.
        finished_now, finished_before: finished by the last attempt, and by earlier attempts.
        unlisted: finished sources that the last listing did not contain.
        failed_now, failed_before: failed in the last attempt, and in earlier attempts without a
            retry since.
        inflight: in progress in the running attempt.
        interrupted: released to an attempt that has ended; the next attempt processes them again.
        waiting: listed sources without another state.
    """

    listed: int | None = None
    finished_now: int = 0
    finished_before: int = 0
    unlisted: int = 0
    failed_now: int = 0
    failed_before: int = 0
    quarantined: int = 0
    inflight: int = 0
    interrupted: int = 0
    waiting: int = 0

    @property
    def finished(self) -> int:
        """Number of all finished sources, listed or not."""
        return self.finished_now + self.finished_before + self.unlisted

    @property
    def failed(self) -> int:
        """Number of all failed sources that were not retried."""
        return self.failed_now + self.failed_before

    @property
    def left(self) -> int:
        """Number of sources that are not finished, including quarantined sources."""
        open_ones = self.inflight + self.interrupted + self.waiting
        return self.failed + self.quarantined + open_ones


class StageDefinition(NamedTuple):
    """The fields of a stage's definition that determine its output."""

    name: str
    use: str
    params: Mapping[str, Any]

    def render(self) -> dict[str, Any]:
        """Render the stage as an item of a pipeline file."""
        name = {"name": self.name} if self.name != self.use else {}
        return {"use": self.use, **name, **({"with": dict(self.params)} if self.params else {})}


class AttemptCounts(NamedTuple):
    """Number of sources that an attempt processed, by result; None for unknown numbers."""

    finished: int
    skipped: int | None = None
    failed: int | None = None


class StageFacts(NamedTuple):
    """Counts of a stage from a publication; None for missing values."""

    name: str
    numbers: Mapping[str, float | None]
    counters: Cut[tuple[str, int]]


class LatestFacts(NamedTuple):
    """The publication that readers should use."""

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
        name: path below `latest/artifacts`.
        content: parsed JSON; None if the file is not JSON or too large to show.
    """

    name: str
    size: int
    content: Any


class StageArtifacts(NamedTuple):
    """Statistics of a stage, and their presentation.

    Attributes:
        panel: HTML fragment from the stage's own code, which is not checked.
        problem: reason for a missing panel, or None.
    """

    stage: str
    artifacts: Cut[Artifact]
    panel: str | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """All facts of a report.

    Attributes:
        pipeline: `namespace/name`.
        run: the pipeline's `runId`.
        time: time when the facts were read, in seconds since the epoch.
        folder: folder of the pipeline on its volume.
        ledger: facts of the ledger; None before it exists.
        attempts: the newest attempts, oldest first.
        samples: progress samples by attempt number.
        live: recent snapshot from the running driver; None if there is no running driver.
        fingerprint: fingerprint of the current pipeline file.
        definition: all stages, including source and sink.
        chains: chains of stages that share a worker, as names in order.
        funnel: rows of finished sources at each stage except the source.
        requests: requests to models by stage, over all attempts of the run.
        costs: cost of each attempt, by number.
        file: command-line words that name the pipeline.
        volume: command-line words that name its volume.
    """

    pipeline: str
    run: str
    time: float
    folder: str
    ledger: RunLedger | None = None
    attempts: Cut[AttemptSummary] = field(default_factory=Cut)
    latest: LatestFacts | None = None
    samples: Mapping[int, Samples] = field(default_factory=dict)
    artifacts: tuple[StageArtifacts, ...] = ()
    live: Snapshot | None = None
    fingerprint: str = ""
    definition: tuple[StageDefinition, ...] = ()
    chains: tuple[tuple[str, ...], ...] = ()
    funnel: tuple[StageTotals, ...] = ()
    requests: Mapping[str, RequestFigures] = field(default_factory=dict)
    costs: Mapping[int, Cost] = field(default_factory=dict)
    file: tuple[str, ...] = ("FILE",)
    volume: tuple[str, ...] = ()

    @property
    def last(self) -> AttemptSummary | None:
        """The newest attempt."""
        return self.attempts.items[-1] if self.attempts.items else None

    @property
    def counts(self) -> FinishedCounts:
        """Files and rows of finished sources; zero before a ledger exists."""
        return FinishedCounts() if self.ledger is None else self.ledger.counts

    def list_gaps(self) -> tuple[str, ...]:
        """Return the gaps of the data set, one sentence each; empty before a ledger exists."""
        return () if self.ledger is None else self.ledger.gaps

    def count_sources(self) -> SourceTotals:
        """Return source counts by state, from the ledger and the last attempt."""
        ledger, last = self.ledger or RunLedger(), self.last
        number = last.record.number if last else 0
        listed, skipped = self._find_listed(ledger)
        # The attempt's number may be too high, because `repair` makes finished sources unfinished.
        now = min(ledger.finished_by.get(number, 0), ledger.finished)
        # Until the listing is complete, the number of skipped sources is unknown, so count all.
        before = ledger.finished - now if skipped is None else min(skipped, ledger.finished - now)
        failed = min(ledger.failed_by.get(number, 0), ledger.failures.count)
        is_over = (
            last is None or last.record.ended is not None or last.state is AttemptStanding.GONE
        )
        inflight = 0 if is_over else min(ledger.inflight_of.get(number, 0), ledger.inflight.count)
        totals = SourceTotals(
            listed,
            finished_now=now,
            finished_before=before,
            unlisted=ledger.finished - now - before,
            failed_now=failed,
            failed_before=ledger.failures.count - failed,
            quarantined=ledger.quarantine.count,
            inflight=inflight,
            interrupted=ledger.inflight.count - inflight,
        )
        known = now + before + totals.left
        return totals._replace(waiting=max(0, (listed or 0) - known))

    def count_attempt(self, view: AttemptSummary) -> AttemptCounts:
        """Return how many sources an attempt processed, consistent with the ledger's numbers.

        If the driver died before it recorded its end, the number of failures is unknown.
        """
        record, ledger = view.record, self.ledger or RunLedger()
        samples = self.samples.get(record.number)
        last = samples.samples[-1] if samples and samples.samples else None
        known = record.outcome.sources if record.outcome else SourceCounts()
        finished = max(view.finished, known.finished, last.finished if last else 0)
        failed = max(known.failed, last.failed if last else 0)
        is_known = known.total is not None or last is not None
        if self.last is not None and record.number == self.last.record.number:
            finished = ledger.finished_by.get(record.number, finished)
            failed, is_known = ledger.failed_by.get(record.number, 0), True
        is_whole = known.total is not None
        return AttemptCounts(
            finished, known.skipped if is_whole else None, failed if is_known else None
        )

    def count_cost(self) -> Cost:
        """Return the total cost of all attempts."""
        total = Cost()
        for cost in self.costs.values():
            total = total.add(cost)
        return total

    def name_command(self, *words: str) -> str:
        """Return a command line that inspects this run."""
        return shlex.join(["strandline", *words, *self.file, *self.volume])

    def _find_listed(self, ledger: RunLedger) -> tuple[int | None, int | None]:
        """Return the number of listed sources, and of skipped sources after a full listing."""
        last, live = self.last, self.live
        if live is not None:
            return (live.listed, live.skipped) if live.is_listed else (ledger.listed, None)
        outcome = last.record.outcome if last else None
        if outcome is None or outcome.sources.total is None:
            return ledger.listed, None
        return ledger.listed, outcome.sources.skipped
