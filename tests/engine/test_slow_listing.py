"""A slow listing makes nobody deaf: a stop is heard and a beat is given while it goes on."""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from strandline.engine.core.heartbeat import Heartbeat
from strandline.engine.core.ports import Control, Listing, RunProgress
from strandline.engine.inline import LISTING_SECONDS, run_inline
from strandline.engine.own_ledger import NoLedger
from strandline.engine.ray.connection import Connection
from strandline.engine.ray.driver import DriverInputs
from strandline.engine.ray_data import engine as ray_data
from strandline.ledger.entries import QUARANTINED, RELEASED, ListedSource
from strandline.plan.fingerprint import Fingerprint
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.stage import Source, Stage
from strandline.plan.task import Task
from strandline.storage.outputs.outputs import OutputLocation
from strandline.storage.outputs.remote import open_outputs

PATIENCE = 120.0


class PassOn(Stage):
    """Does nothing."""

    def process(self, task: Task) -> Task:
        """The task as it came."""
        return task


def make_plan() -> PipelinePlan:
    source = StagePlan("source", "source", Stage())
    return PipelinePlan(
        "ns", "name", source, (StagePlan("s0", "s", PassOn()),), Fingerprint("", {})
    )


def make_ray_data_driver(
    monkeypatch: pytest.MonkeyPatch, listing: Listing, control: Control
) -> ray_data._RayDataDriver:
    """A driver without a ledger and without workers."""
    losses = SimpleNamespace(
        actor=None, look=list, leave=lambda: None, ask=lambda: None, note=lambda _: None
    )
    losses.stop = losses.leave
    windows = SimpleNamespace(stop=lambda: None)
    monkeypatch.setattr(ray_data, "WorkerLosses", lambda *_: losses)
    monkeypatch.setattr(ray_data, "Windows", lambda *_: windows)
    monkeypatch.setattr(ray_data, "ray", SimpleNamespace(get=lambda _: None))
    monkeypatch.setattr(ray_data, "POLL_SECONDS", 0.01)
    connection = Connection(cpus=1.0)
    outputs = OutputLocation("out")
    given = DriverInputs(make_plan(), listing, None, control, connection, outputs)
    return ray_data._RayDataDriver(given)


def test_law_ray_data_hears_a_stop_while_a_listing_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    is_asked, may_go_on, is_over = threading.Event(), threading.Event(), threading.Event()

    def hang() -> Iterator[Source]:
        yield Source("0", "1", 0)
        is_asked.set()
        may_go_on.wait(PATIENCE)
        is_over.set()

    control = Control(is_asked.is_set, lambda _: None, time.monotonic)
    driver = make_ray_data_driver(monkeypatch, Listing(hang()), control)

    driver._fill()

    assert driver._flow.is_stopped
    assert not is_over.is_set()
    may_go_on.set()
    driver.stop()


def test_ray_data_lists_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    control = Control(lambda: False, lambda _: None, time.monotonic)
    sources = (Source(str(number), "1", number) for number in range(300))
    driver = make_ray_data_driver(monkeypatch, Listing(sources), control)

    driver._fill()

    assert [slot.key for slot in driver._flow.queues[0].waiting] == [*map(str, range(300))]
    driver.stop()


def test_law_ray_data_shows_life_while_it_waits_for_a_ledger_that_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    control = Control(lambda: False, lambda _: None, time.monotonic)
    driver: Any = make_ray_data_driver(monkeypatch, Listing(iter(())), control)
    waited: list[object] = []
    driver._ledger = SimpleNamespace(is_tracked=True, wait=waited.append)

    driver._get("answer")

    assert waited == ["answer"]


class Steps(Heartbeat):
    """Writes down when it is told of a step."""

    def __init__(self, days: SlowDays) -> None:
        super().__init__(lambda: days.now, lambda: days.now)
        self.days = days
        self.times: list[float] = []

    def note_progress(self) -> None:
        self.times.append(self.days.now)


class SlowDays:
    """A listing on a clock of its own: each source takes as long."""

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


def test_law_inline_a_stop_waits_for_a_moment_of_listing_and_no_longer(tmp_path: Any) -> None:
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
    """Has every third source in quarantine."""

    def admit(self, batch: Sequence[ListedSource], passed: int) -> list[int]:
        return [QUARANTINED if listed.ordinal % 3 == 0 else RELEASED for listed in batch]


def test_inline_quarantined_sources_are_counted(tmp_path: Any) -> None:
    last = SlowDays(300, 0.4).run(Parking(), 1e9, tmp_path)[-1]
    assert (last.listed, last.quarantined, last.skipped) == (300, 100, 0)
    assert last.flow.queues[0].counts.tasks_in == 200


def test_inline_a_fast_listing_comes_in_whole_batches(tmp_path: Any) -> None:
    told = SlowDays(600, 0.0).run(NoLedger(), 1e9, tmp_path)
    assert sorted({progress.listed for progress in told}) == [0, 256, 512, 600]
