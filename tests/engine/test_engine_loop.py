"""The loop of a run with a fake transport: its turns, reports, stop, and end."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import partial

import pytest

from strandline.engine.call.wire import pack_tasks
from strandline.engine.core.pools import PoolState
from strandline.engine.core.ports import Control, Ending, Listing, RunProgress
from strandline.engine.flow.flow import Flow
from strandline.engine.loop.admission import Admission
from strandline.engine.loop.loop import EngineLoop
from strandline.engine.loop.transport import RunState, Transport
from strandline.engine.own_ledger import NoLedger
from strandline.plan.fingerprint import Fingerprint
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.stages.ends import Source
from strandline.plan.stages.stage import Stage
from test_flow import pass_on

SOURCES = 5
PLAN = PipelinePlan(
    "ns",
    "made-up",
    StagePlan("source", "source", Stage()),
    (StagePlan("a", "a", Stage()), StagePlan("b", "b", Stage())),
    Fingerprint("", {}),
)


class MadeUpTransport(Transport):
    """Answers one call per turn immediately, and records the loop's requests."""

    def __init__(self, state: RunState, listing: Listing) -> None:
        super().__init__(state)
        self._listing = listing
        self.turns = 0
        self.requests: list[str] = []

    def turn(self) -> None:
        self.turns += 1
        for stage in (1, 0):
            if batch := self._flow.next_batch(stage):
                self._state.complete(stage, batch, pass_on(batch), "block")
                return
        self._state.admission.enter(self._listing.draw(2))

    def close(self) -> None:
        self.requests.append("close")

    def must_leave(self) -> bool:
        self.requests.append("must_leave")
        return True

    def list_pools(self) -> Sequence[PoolState]:
        return [PoolState(1, 1)] * 2

    def has_losses(self) -> bool:
        return False

    def lose_rest(self) -> None:
        self.requests.append("lose_rest")


class Run:
    """A run with the fake transport.

    Attributes:
        counts: for each report, the finished tasks of each stage and the listed sources.
    """

    def __init__(self, stop_at: int = 1_000_000) -> None:
        self.counts: list[tuple[int, ...]] = []
        self._stop_at = stop_at
        listing = Listing(Source(str(number), "1", number) for number in range(SOURCES))
        flow, ledger = Flow(PLAN), NoLedger()
        admission = Admission(listing, ledger, flow, partial(pack_tasks, dumps=pickle.dumps))
        control = Control(lambda: len(self.counts) >= stop_at, self._report, lambda: 0.0)
        state = RunState(PLAN, flow, listing, ledger, admission, control)
        self.transport = MadeUpTransport(state, listing)
        self.ending: Ending = EngineLoop(state, self.transport).run()

    def _report(self, progress: RunProgress) -> None:
        done = [counts.tasks_in for counts in progress.flow.counts.values()]
        self.counts.append((progress.listed, *done))


def test_a_run_ends_when_all_sources_are_listed_and_none_waits() -> None:
    run = Run()
    assert run.ending.is_listed
    assert run.ending.listed == run.ending.standing.finished == SOURCES
    # A turn admits two sources or makes one call.
    assert run.transport.turns == -(-SOURCES // 2) + 2 * SOURCES
    assert run.transport.requests == []


def test_each_turn_and_the_end_are_reported() -> None:
    run = Run()
    assert len(run.counts) == run.transport.turns + 1
    assert run.counts[0] == (0, 0, 0)
    assert run.counts[-1] == (SOURCES, SOURCES, SOURCES)


@pytest.mark.parametrize("stop_at", [1, 4, 8])
def test_a_stopped_run_makes_no_more_turns_and_counts_lost_work(stop_at: int) -> None:
    run = Run(stop_at)
    assert run.transport.turns == stop_at - 1
    assert run.transport.requests == ["must_leave", "lose_rest"]
    assert not run.ending.is_listed
