"""Facts about runs for reports: plain, with failures, and with hostile texts."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from attempt_builders import killed_for, record_of
from strandline.cli.report.facts import (
    Artifact,
    Cut,
    Kinds,
    LatestFacts,
    RunFacts,
    RunLedger,
    StageArtifacts,
    StageDefinition,
    StageFacts,
)
from strandline.cli.views.attempt import AttemptStanding, AttemptSummary
from strandline.cli.views.running.snapshot import Snapshot, StageView
from strandline.data.statistics.request_figures import RequestFigures, name_time, read_figures
from strandline.engine.core.pools import PoolState
from strandline.ledger.checks.counts import StageTotals
from strandline.ledger.records.entries import FailureRecord, Mark, QuarantinedSource
from strandline.run.attempt.failures import (
    FailureGroup,
    FailureReason,
    group_failures,
    view_quarantined,
)
from strandline.run.insight.funnel import Cost
from strandline.run.insight.records import Witness
from strandline.run.insight.samples import Sample, Samples, StagePoint
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import SourceCounts

NOW = 1_800_000_000.0
VERSION = b"12345678"
DECODE = "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff (texts.py:12)"
DEFINITION = (
    StageDefinition("files", "files", {"paths": ["in/*.txt"], "buckets": 32}),
    StageDefinition("read", "own_module:Read", {}),
    StageDefinition("write", "jsonl", {"path": None, "compression": "gzip"}),
)
# Texts that would become markup or code if not escaped.
HARM = (
    "<script>document.title='taken'</script>",
    '"><img src=x onerror="document.title=\'taken\'">',
    "</style></title></textarea><svg onload=alert(1)>",
    "' onfocus='alert(1)' autofocus='",
    "</iframe><base href=https://example.com>&lt;b&gt;",
    "a\u202eb\x00c\ud800d\x1b[2J\n",
)


class Outline(HTMLParser):
    """The parsed page as in a browser: its elements in order, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    @property
    def tags(self) -> list[str]:
        return [tag for tag, _ in self.elements]


def sampled(begun: float, *counts: int, stages: tuple[str, ...] = ("read", "write")) -> Samples:
    """Return samples of an attempt: finished sources every ten seconds."""
    samples = tuple(
        Sample(10.0 * place, count, 0, tuple(StagePoint(count, 2 * count) for _ in stages))
        for place, count in enumerate(counts)
    )
    return Samples(begun=begun, stages=stages, samples=samples)


def ended(number: int, cause: Cause | None = None, *, lasted: float = 60.0) -> AttemptSummary:
    """Return an ended attempt that began 1,000 s after its predecessor."""
    begun = NOW - 10_000 + 1000 * number
    record = record_of(number, started=begun)
    outcome = killed_for(cause or Cause.UNKNOWN, number)
    counts = SourceCounts(total=100, finished=10 * number, skipped=5, failed=2)
    update = {"sources": counts, "message": f"the end of {number}"}
    if cause is None:
        update |= {"exit_code": 0, "evidence": ()}
    record = record.end(outcome.model_copy(update=update), begun + lasted, Witness.DRIVER)
    state = AttemptStanding.ENDED if cause else AttemptStanding.COMPLETED
    return AttemptSummary(record, state, lasted, counts.finished)


def running(number: int) -> AttemptSummary:
    """Return an attempt that began a minute ago."""
    return AttemptSummary(record_of(number, started=NOW - 60), AttemptStanding.RUNNING, 60.0, 7)


def facts_of(**changes: Any) -> RunFacts:
    """Return the facts of a pipeline without any data."""
    facts: dict[str, Any] = {
        "pipeline": "default/notes",
        "run": "first",
        "time": NOW,
        "folder": "data/notes",
    }
    return RunFacts(**(facts | changes))


def failures_of(count: int, *, shown: int = 5, message: str = "bad magic") -> RunLedger:
    """Return a ledger with `count` failures, of which some are listed."""
    entries = [
        FailureRecord(f"in/{number}.txt", 3, "read", message, 2, VERSION)
        for number in range(min(count, shown))
    ]
    return RunLedger(
        size=1000,
        listed=2 * count,
        finished=count,
        failed_in={"read": count},
        failures_by_kind=Kinds(group(entries, count)),
        failures=Cut(tuple(entries), count),
    )


def group(entries: list[FailureRecord], count: int) -> tuple[FailureGroup, ...]:
    """Return a group of `count` failures like the first entry."""
    return tuple(replace(each, count=count) for each in group_failures(entries[:1]))


def funnel_of(rows: int, *reasons: str) -> tuple[StageTotals, ...]:
    """Return totals of three stages: read `rows` rows, drop ten rows per reason, and write."""
    left = rows - 10 * len(reasons)
    dropped = tuple((reason, 10) for reason in reasons)
    return (
        StageTotals("read", 50, rows),
        StageTotals("filter", rows, left, 0, dropped),
        StageTotals("write", left, left),
    )


def asked_requests() -> dict[str, RequestFigures]:
    """Return the requests of a stage that queried a model."""
    counters = {"requests": 1200, "spent: prompt tokens": 9000, "spent: completion tokens": 700}
    counters |= {"requests answered by the log": 34, "spent: cost, in millionths": 5_670_000}
    counters |= {name_time(seconds): 400 for seconds in (0.4, 0.9, 4.0)}
    return {"ask": read_figures(counters)}


ASKED = (
    "1,200 requests, 34 answered by the log, 9,000 tokens in, 700 out, cost 5.67; "
    "of answers 50% within 1 s, 95% within 5 s, 99% within 5 s"
)


def live_of(bottleneck: str | None = "read") -> Snapshot:
    """Return a driver's snapshot."""
    stages = (
        StageView("read", 50, 40, 3, 2, 1, PoolState(4, 3, lost=2), 12.5, 0.87),
        StageView("write", 40, 40, 0, 0, 0, PoolState(1, 1), 12.0, 0.1),
    )
    return Snapshot(60.0, 200, True, 30, 38, 2, 2.5, stages, 1, bottleneck)


def kinds_of(ledger: RunLedger) -> Kinds:
    """Return the groups of a ledger's failures between two others, and three ungrouped failures."""
    undecoded = FailureRecord("a b'.txt", 3, "read", DECODE, 1, VERSION)
    killed = FailureRecord("c.txt", 3, "", "its worker was killed alone", 1)
    groups = (*group([undecoded], 90), *ledger.failures_by_kind.groups, *group([killed], 2))
    return Kinds(groups, 3)


def troubled() -> RunFacts:
    """Return a run with content in every section and every state."""
    ledger = failures_of(120)
    quarantine = QuarantinedSource(
        "in/x.txt", VERSION, 3, "Killed", "", "its worker was killed alone", 3
    )
    mark = Mark("in/y.txt", VERSION, 4, 9, False)
    numbers: dict[str, float | None] = {"tasks_in": 5, "tasks_out": 4, "filtered": 1, "failed": 0}
    numbers |= {"rows_in": 10, "rows_out": 9, "seconds": 1.25}
    causes = (Cause.PREEMPTED, Cause.OOM_KILLED, None)
    views = [ended(number + 1, cause) for number, cause in enumerate(causes)]
    begun = [view.record.started for view in views]
    return facts_of(
        ledger=RunLedger(
            size=9000,
            listed=500,
            finished=200,
            finished_by={4: 7},
            failed_in={"read": 118, "": 2},
            failures_by_kind=kinds_of(ledger),
            quarantine_by_kind=Kinds(group([view_quarantined(quarantine)], 1)),
            failed_by={3: 118, 4: 2},
            inflight_of={4: 25, 2: 5},
            failures=ledger.failures,
            quarantine=Cut((quarantine,), 1),
            inflight=Cut((mark,), 30),
        ),
        attempts=Cut((*views, running(4)), 7),
        latest=LatestFacts(
            "0003/p0002",
            3,
            NOW - 100,
            True,
            True,
            Cut((("metrics.json", 1234),), 30),
            (StageFacts("read", numbers, Cut((("dropped: too long", 7),), 25)),),
        ),
        samples={
            1: sampled(begun[0], 0, 5, 30, 31),
            2: sampled(begun[1], 0, 100, 140),
            4: sampled(NOW - 60, 0, 1, 2, 90, stages=("read", "join", "write")),
        },
        artifacts=(
            StageArtifacts("moments", Cut((Artifact("all.json", 90, {"mean": 2.5, "n": 4}),), 1)),
            StageArtifacts("words", Cut((Artifact("words.bin", 5, None),), 1), "<h1>Words</h1>"),
            StageArtifacts("late", Cut()),
            StageArtifacts("odd", Cut((Artifact("a", 1, None),), 1), problem="KeyError: 'x'"),
        ),
        live=live_of(),
        fingerprint="0a" * 16,
        definition=DEFINITION,
        funnel=funnel_of(12_345, "too long", "empty", "a duplicate"),
        costs={1: Cost(3600.0, 1200.0), 2: Cost(18.0, 0.0), 4: Cost(1.0, 0.0)},
        file=("jobs/pipeline.yaml",),
        volume=("--volume", "/data/my volume"),
    )


def crowded() -> RunFacts:
    """Return a run of a thousand attempts with over a million failures of many kinds."""
    ledger = failures_of(1_234_567, shown=100, message="ValueError: bad magic (readers.py:120)")
    views = tuple(ended(number, Cause.KILLED if number % 3 else None) for number in range(1, 31))
    kinds = [
        FailureGroup(
            f"stage-{number}",
            FailureReason(f"Error{number}", f"long_module_{number}.py:3", ""),
            10**6,
            entry,
        )
        for number, entry in enumerate(ledger.failures.items[:60])
    ]
    plain = troubled()
    return replace(
        plain,
        ledger=replace(ledger, failures_by_kind=Kinds(tuple(kinds), 5)),
        attempts=Cut(views, 1000),
        funnel=funnel_of(10**9, *(f"reason number {number}" for number in range(20))),
        costs={view.record.number: Cost(1e9, 1e6) for view in views},
        samples={view.record.number: sampled(view.record.started, 0, 50, 90) for view in views},
        live=None,
    )


def harmful(harm: str) -> RunFacts:
    """Return the same run, with this text in place of every external text."""
    failure = FailureRecord(harm, 1, harm, harm, 1, VERSION)
    quarantine = QuarantinedSource(harm, VERSION, 1, harm, harm, harm, 3)
    view = ended(1, Cause.OOM_KILLED)
    assert view.record.outcome is not None
    outcome = view.record.outcome.model_copy(update={"message": harm})
    record = view.record.model_copy(update={"outcome": outcome, "run": harm})
    numbers: dict[str, float | None] = {"tasks_in": 1}
    columns = ("tasks_out", "filtered", "failed", "rows_in", "rows_out", "seconds")
    numbers |= dict.fromkeys(columns, 0)
    return facts_of(
        pipeline=harm,
        run=harm,
        folder=harm,
        ledger=RunLedger(
            size=1,
            listed=1,
            finished=1,
            failed_in={harm: 1},
            failures_by_kind=Kinds(
                (FailureGroup(harm, FailureReason(harm, harm, harm), 1, failure),)
            ),
            failures=Cut((failure,), 1),
            quarantine=Cut((quarantine,), 1),
            inflight=Cut((Mark(harm, VERSION, 1, 1, False),), 1),
        ),
        attempts=Cut((view._replace(record=record),), 1),
        latest=LatestFacts(
            harm,
            1,
            None,
            False,
            False,
            Cut(((harm, 1),), 1),
            (StageFacts(harm, numbers, Cut(((harm, 1),), 1)),),
        ),
        samples={1: sampled(record.started, 0, 5, stages=(harm,))},
        artifacts=(
            StageArtifacts(harm, Cut((Artifact(harm, 1, {harm: 1}),), 1)),
            StageArtifacts(harm, Cut((Artifact(harm, 1, None),), 1), panel=harm),
            StageArtifacts(harm, Cut((Artifact(harm, 1, None),), 1), problem=harm),
        ),
        live=Snapshot(1.0, 1, True, 0, 0, 0, 1.0, (StageView(harm, 1, 1, 0, 0),), 0, harm),
        fingerprint=harm,
        definition=(StageDefinition(harm, harm, {harm: harm}),),
        funnel=(StageTotals(harm, 1, 1, 0, ((harm, 1),)),),
        costs={1: Cost(1.0, 0.5)},
        file=(harm,),
        volume=(harm,),
    )
