"""Data of departing nodes is copied once and used by waiting tasks. Nothing else changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.call.slots import Slot
from strandline.engine.core.ports import DepartureNotice
from strandline.engine.core.workers import Call, Worker
from strandline.engine.flow.flow import Flow
from strandline.engine.flow.suspects import SuspectBatch
from strandline.engine.preemption.departures import (
    COPIES,
    SETTLE_SECONDS,
    Departures,
    Evacuation,
)
from strandline.engine.preemption.nodes import STAY_SECONDS, LostNodes
from test_flow import make_flow, make_slots


class PlayedData:
    """Blocks by name, with the nodes that hold each block."""

    def __init__(self, homes: dict[str, set[str]], others: Sequence[str]) -> None:
        self.homes = homes
        self.others = list(others)
        self.broken: set[str] = set()
        self.copied: list[str] = []

    def find_homes(self, blocks: Sequence[Any]) -> Mapping[Any, Collection[str]]:
        return {block: self.homes[block] for block in blocks}

    def copy(self, block: Any, avoid: Collection[str]) -> Any | None:
        free = [node for node in self.others if node not in avoid]
        if not free:
            return None
        copy = f"{block}+"
        self.copied.append(block)
        self.homes[copy] = {free[0]}
        return copy

    def is_made(self, copy: Any) -> bool | None:
        return None if copy in self.broken else True


def fill(blocks: list[Any]) -> tuple[Flow, list[Call]]:
    """Return a flow with blocks wherever tasks wait, and the calls that have the last blocks."""
    flow = make_flow(1, 1, group=2)
    slots = [
        slot._replace(block=block)
        for slot, block in zip(make_slots(len(blocks)), blocks, strict=True)
    ]
    calls: list[Call] = []
    for number, slot in enumerate(slots):
        kind = number % 4
        if kind == 0:
            flow.queues[0].waiting.append(slot)
        elif kind == 1:
            flow.suspects.hold(SuspectBatch(0, [slot], 2))
        elif kind == 2:
            flow.queues[1].add_group([slot])
        else:
            calls.append(Call(0, Worker(0, "actor"), [slot], None, number))
    return flow, calls


def list_blocks(flow: Flow, calls: list[Call]) -> list[Any]:
    seen: list[Any] = []

    def note(slot: Slot) -> Slot:
        seen.append((slot.source, slot.block))
        return slot

    flow.change(note)
    seen += [(slot.source, slot.block) for call in calls for slot in call.batch]
    return [block for _, block in sorted(seen)]


nodes = st.sampled_from(["a", "b", "c"])


@given(homes=st.lists(st.sets(nodes, max_size=3), min_size=1, max_size=12), going=st.sets(nodes))
def test_law_only_data_held_by_departing_nodes_alone_is_copied(
    homes: list[set[str]], going: set[str]
) -> None:
    blocks = [f"block{number:02}" for number in range(len(homes))]
    data = PlayedData(dict(zip(blocks, homes, strict=True)), ["d"])
    flow, calls = fill(blocks)
    evacuation = Evacuation(flow, lambda: calls, data)
    stuck = [block for block, on in zip(blocks, homes, strict=True) if on and on <= going]

    left = evacuation.look(going)
    assert sorted(data.copied) == stuck
    assert sum(left.values()) == sum(len(data.homes[block]) for block in stuck)
    assert list_blocks(flow, calls) == blocks

    assert not evacuation.look(going)  # the copies are complete
    moved = [f"{block}+" if block in stuck else block for block in blocks]
    assert list_blocks(flow, calls) == moved
    assert not evacuation.look(going)
    assert sorted(data.copied) == stuck


def test_a_copy_that_cannot_be_made_is_tried_again() -> None:
    data = PlayedData({"block": {"a"}}, ["d"])
    flow, calls = fill(["block"])
    evacuation = Evacuation(flow, lambda: calls, data)
    data.broken.add("block+")
    assert evacuation.look({"a"}) == {"a": 1}
    assert evacuation.look({"a"}) == {"a": 1}
    data.broken.clear()
    assert not evacuation.look({"a"})
    assert data.copied == ["block", "block"]


def test_data_without_another_node_stays_and_is_reported() -> None:
    data = PlayedData({"block": {"a"}}, [])
    flow, calls = fill(["block"])
    evacuation = Evacuation(flow, lambda: calls, data)
    assert evacuation.look({"a"}) == {"a": 1}
    data.others.append("d")
    evacuation.look({"a"})
    assert not evacuation.look({"a"})


def test_the_number_of_concurrent_copies_is_limited() -> None:
    blocks = [f"{number:03}" for number in range(COPIES + 5)]
    data = PlayedData({block: {"a"} for block in blocks}, ["d"])
    flow, calls = fill([])
    for slot, block in zip(make_slots(len(blocks)), blocks, strict=True):
        flow.queues[0].waiting.append(slot._replace(block=block))
    evacuation = Evacuation(flow, lambda: calls, data)
    evacuation.look({"a"})
    assert len(data.copied) == COPIES
    assert evacuation.look({"a"})["a"] == 5
    assert not evacuation.look({"a"})


def test_data_at_the_driver_is_not_copied() -> None:
    flow, calls = fill([["packed"]])
    assert not Evacuation(flow, lambda: calls, PlayedData({}, ["d"])).look({"a"})


def take(departures: Departures, *notices: DepartureNotice, now: float = 0.0) -> list[str]:
    known = {"10.0.0.1": ["a"], "10.0.0.2": ["b"], "10.0.0.9": ["here"]}
    return departures.take(notices, lambda name: known.get(name, []), now)


def test_a_notice_marks_its_node_and_is_reported_once() -> None:
    marks = LostNodes("here")
    departures = Departures(marks)
    notice = DepartureNotice("10.0.0.1", 30.0, "spot node x is taken back")
    assert take(departures, notice) == [
        "node 10.0.0.1 will be removed in 30 s: spot node x is taken back"
    ]
    assert take(departures, notice) == []
    assert marks.leaving == {"a": 30.0}
    assert departures.sum_up({"a": 2, "b": 5}) == {"10.0.0.1": 2}


@given(ends=st.lists(st.floats(0.0, 1e4), min_size=1, max_size=5))
def test_law_the_earliest_end_of_several_notices_counts(ends: list[float]) -> None:
    marks = LostNodes("here")
    departures = Departures(marks)
    for end in ends:
        take(departures, DepartureNotice("10.0.0.1", end))
    assert marks.leaving == {"a": min(ends)}


def test_unknown_nodes_and_the_drivers_node_are_not_evacuated() -> None:
    marks = LostNodes("here")
    departures = Departures(marks)
    assert (
        take(departures, DepartureNotice("10.9.9.9", 1.0), DepartureNotice("10.0.0.9", 1.0)) == []
    )
    assert not marks.leaving
    assert departures.sum_up({}) == {"10.9.9.9": 0, "10.0.0.9": 0}


def test_a_lost_node_needs_no_evacuation() -> None:
    marks = LostNodes("here")
    departures = Departures(marks)
    take(departures, DepartureNotice("10.0.0.1", 1.0))
    marks.learn(["a"])
    assert departures.sum_up({"a": 3}) == {"10.0.0.1": 0}


def test_a_node_that_outlives_its_notice_is_used_again() -> None:
    marks = LostNodes("here")
    departures = Departures(marks)
    notice = DepartureNotice("10.0.0.1", 10.0)
    take(departures, notice)
    marks.expire(10.0 + STAY_SECONDS - 0.1)
    assert marks.is_going("a")
    marks.expire(10.0 + STAY_SECONDS)
    assert not marks.is_going("a")
    assert take(departures, notice) == []
    assert take(departures, DepartureNotice("10.0.0.1", 500.0)) != []


def test_law_a_node_is_released_only_after_being_empty_for_a_moment() -> None:
    marks = LostNodes("here")
    departures = Departures(marks)
    take(departures, DepartureNotice("10.0.0.1", 100.0))
    assert departures.settle({}, 0.0) == {"a": 1}
    assert departures.settle({"a": 3}, 0.5) == {"a": 3}
    assert departures.settle({"a": 0}, 0.5 + SETTLE_SECONDS / 2) == {"a": 1}
    assert departures.settle({}, 0.5 + SETTLE_SECONDS) == {}
