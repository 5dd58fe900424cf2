"""During a slow listing, the driver handles stop requests and sends heartbeats."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

from strandline.engine.core.ports import Control, Listing, RunProgress
from strandline.engine.inline import LISTING_SECONDS, run_inline
from strandline.engine.own_ledger import NoLedger
from strandline.ledger.access.heartbeat import Heartbeat
from strandline.ledger.records.entries import QUARANTINED, RELEASED, ListedSource
from strandline.plan.fingerprint import Fingerprint
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.stages.ends import Source
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline.storage.outputs.remote import open_outputs


class PassOn(Stage):
    """Does nothing."""

    def process(self, task: Task) -> Task:
        """Return the same task."""
        return task


def make_plan() -> PipelinePlan:
    source = StagePlan("source", "source", Stage())
    return PipelinePlan(
        "ns", "name", source, (StagePlan("s0", "s", PassOn()),), Fingerprint("", {})
    )


class Steps(Heartbeat):
    """Records the times of its steps."""

    def __init__(self, days: SlowDays) -> None:
        super().__init__(lambda: days.now, lambda: days.now)
        self.days = days
        self.times: list[float] = []

    def note_progress(self) -> None:
        self.times.append(self.days.now)


class SlowDays:
    """A listing with its own clock, in which each source takes the same time."""

    def __init__(self, count: int, seconds: float) -> None:
        self.count, self.seconds, self.now = count, seconds, 0.0
        self.heartbeat = Steps(self)

    def __iter__(self) -> Iterator[Source]:
        for number in range(self.count):
            self.now += self.seconds
            yield Source(str(number), "1", number)

    def run(self, ledger: NoLedger, stop_at: float, tmp_path: Any) -> list[RunProgress]:
        told: list[RunProgress] = []
        control = Control(lambda: self.now >= stop_at, told.append, lambda: self.now)
        control.heartbeat = self.heartbeat
        outputs = open_outputs(str(tmp_path))
        run_inline(make_plan(), Listing(iter(self)), ledger, outputs, control)
        return told


def test_law_inline_a_stop_waits_at_most_a_moment_of_listing(tmp_path: Any) -> None:
    days = SlowDays(300, 0.4)
    days.run(NoLedger(), 5.0, tmp_path)
    assert days.now <= 5.0 + LISTING_SECONDS + days.seconds


def test_law_inline_a_slow_listing_shows_life_after_a_moment_at_most(tmp_path: Any) -> None:
    days = SlowDays(300, 0.4)
    days.run(NoLedger(), 1e9, tmp_path)
    gaps = map(operator.sub, days.heartbeat.times[1:], days.heartbeat.times)
    assert max(gaps) <= LISTING_SECONDS + days.seconds
    assert days.now - days.heartbeat.times[-1] <= LISTING_SECONDS + days.seconds


class Parking(NoLedger):
    """Puts every third source in quarantine."""

    def admit(self, batch: Sequence[ListedSource], passed: int) -> list[int]:
        return [QUARANTINED if listed.ordinal % 3 == 0 else RELEASED for listed in batch]


def test_inline_quarantined_sources_are_counted(tmp_path: Any) -> None:
    last = SlowDays(300, 0.4).run(Parking(), 1e9, tmp_path)[-1]
    assert (last.listed, last.quarantined, last.skipped) == (300, 100, 0)
    assert last.flow.queues[0].counts.tasks_in == 200


def test_inline_a_fast_listing_comes_in_whole_batches(tmp_path: Any) -> None:
    told = SlowDays(600, 0.0).run(NoLedger(), 1e9, tmp_path)
    assert sorted({progress.listed for progress in told}) == [0, 256, 512, 600]
