"""What a report says, as plain data: it knows neither where that was read nor how it is drawn.

Lists are cut where a page would grow with the run; what they are cut from is counted exactly.
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
from strandline.ledger.records.entries import FailureRecord, Mark, Quarantined
from strandline.run.attempt.failures import FailureGroup
from strandline.run.insight.funnel import Cost
from strandline.run.insight.samples import Samples
from strandline_api.outcome.driver_outcome import SourceCounts

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Cut(Generic[Item]):
    """The first items of a list, and how many there are in all."""

    items: tuple[Item, ...] = ()
    count: int = 0

    @property
    def more(self) -> int:
        """Return how many are not among the items."""
        return max(0, self.count - len(self.items))


@dataclass(frozen=True, slots=True)
class Kinds:
    """Sources by what their messages have in common.

    Attributes:
        groups: the largest first.
        ungrouped: sources in none of those, since there were too many kinds.
    """

    groups: tuple[FailureGroup, ...] = ()
    ungrouped: int = 0


@dataclass(frozen=True, slots=True)
class RunLedger:
    """Facts from the ledger.

    Attributes:
        size: bytes on disk.
        listed: by the last listing that came to its end; None without one.
        finished: sources.
        finished_by: how many of them by which attempt, of which alone that is kept.
        failed_in: how many failed in which stage.
        failures_by_kind, quarantine_by_kind: sources by why they are there.
        counts: files and rows of finished sources.
        dead_by_kind: rows that failed alone, by why.
        failed_by, inflight_of: how many failed in, or were released to, which attempt.
        gaps: what the data set lacks of a complete one, a sentence each.
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
    quarantine: Cut[Quarantined] = field(default_factory=Cut)
    inflight: Cut[Mark] = field(default_factory=Cut)
    gaps: tuple[str, ...] = ()


class SourceTotals(NamedTuple):
    """How the sources stand. Each is in one state, so where a listing has ended they add up to it.

    Attributes:
        listed: None where no listing has come to its end.
        finished_now, finished_before: by the last attempt, and by others.
        unlisted: finished ones that the last listing has not named.
        failed_now, failed_before: in the last attempt, and in others without another try since.
        inflight: with the last attempt, which runs.
        interrupted: released to an attempt that is over; the next one does them again.
        waiting: listed ones of which nothing else is known.
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
        """All that are finished, listed or not."""
        return self.finished_now + self.finished_before + self.unlisted

    @property
    def failed(self) -> int:
        """All that have failed and were not tried again."""
        return self.failed_now + self.failed_before

    @property
    def left(self) -> int:
        """All that a further attempt has to do, or that are kept from it."""
        open_ones = self.inflight + self.interrupted + self.waiting
        return self.failed + self.quarantined + open_ones


class StageDefinition(NamedTuple):
    """What a pipeline says of a stage that decides its output."""

    name: str
    use: str
    params: Mapping[str, Any]

    def render(self) -> dict[str, Any]:
        """Render the item of a file that means this stage."""
        name = {"name": self.name} if self.name != self.use else {}
        return {"use": self.use, **name, **({"with": dict(self.params)} if self.params else {})}


class AttemptCounts(NamedTuple):
    """What an attempt has done with sources; None where that is not known."""

    finished: int
    skipped: int | None = None
    failed: int | None = None


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
        panel: a fragment of HTML by the stage's own code, which is not checked.
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
        fingerprint: of the pipeline as its file is now.
        definition: its stages, source and sink included.
        chains: the names of the stages that run in one worker, in order.
        funnel: rows of finished sources at each stage, the source not among them.
        requests: to models, by stage, over all attempts of the run.
        costs: by number of attempt, of all of them.
        file: words of a command line that name the pipeline.
        volume: words that name its volume.
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
        """Files and rows of finished sources; none before there is a ledger."""
        return FinishedCounts() if self.ledger is None else self.ledger.counts

    def list_gaps(self) -> tuple[str, ...]:
        """Return what the data set lacks, a sentence each; nothing before there is a ledger."""
        return () if self.ledger is None else self.ledger.gaps

    def count_sources(self) -> SourceTotals:
        """Return how the sources stand, by the ledger and the last attempt."""
        ledger, last = self.ledger or RunLedger(), self.last
        number = last.record.number if last else 0
        listed, skipped = self._find_listed(ledger)
        now = min(ledger.finished_by.get(number, 0), ledger.finished)
        # Before a listing has ended, a source that is not skipped yet may still be.
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
        """Return what an attempt has done, so that its row agrees with the ledger's numbers.

        A driver that did not live to write down its end has written nothing of failures either.
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
        """Return what all attempts together have cost."""
        total = Cost()
        for cost in self.costs.values():
            total = total.add(cost)
        return total

    def name_command(self, *words: str) -> str:
        """Return a command line that looks at this run."""
        return shlex.join(["strandline", *words, *self.file, *self.volume])

    def _find_listed(self, ledger: RunLedger) -> tuple[int | None, int | None]:
        """Return what is listed, and what of it was skipped where the last listing has ended."""
        last, live = self.last, self.live
        if live is not None:
            return (live.listed, live.skipped) if live.is_listed else (ledger.listed, None)
        outcome = last.record.outcome if last else None
        if outcome is None or outcome.sources.total is None:
            return ledger.listed, None
        return ledger.listed, outcome.sources.skipped
