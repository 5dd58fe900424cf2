"""When the driver requests more nodes from the autoscaler."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import pytest

from strandline.engine.flow.stage_queue import StageQueue
from strandline.engine.ray.scaling.demand import (
    VARIABLE,
    WAIT_SECONDS,
    Demand,
    read_full_size,
    wants_more,
)

FULL = ({"CPU": 4.0}, {"CPU": 4.0})


def queue(waiting: int, running: int = 0) -> StageQueue:
    slots: deque[Any] = deque([None] * waiting)
    return StageQueue("read", 1, None, waiting=slots, running=running)


class Asked:
    """An autoscaler that records requests, with a clock that does not advance."""

    def __init__(self, full: tuple[dict[str, float], ...] = FULL) -> None:
        self.now = 100.0
        self.requests: list[list[dict[str, float]]] = []
        self.demand = Demand(full, lambda: self.now, self.requests.append)

    def look(self, waiting: int, sources_left: int | None = None, running: int = 0) -> None:
        self.demand.look([queue(waiting, running)], sources_left)


@pytest.mark.parametrize(
    ("waiting", "running", "sources_left", "wanted"),
    [
        (1, 8, None, True),
        (1, 8, 5, True),
        (0, 8, None, False),
        (0, 8, 5, False),
        (9, 8, 0, True),
        (8, 8, 0, False),
        (0, 0, 0, False),
    ],
)
def test_more_nodes_are_requested_while_work_waits(
    waiting: int, running: int, sources_left: int | None, wanted: bool
) -> None:
    assert wants_more([queue(waiting, running)], sources_left) is wanted


def test_the_whole_cluster_is_requested_once() -> None:
    asked = Asked()
    for _ in range(3):
        asked.look(5)
    assert asked.requests == [[{"CPU": 4.0}, {"CPU": 4.0}]]


def test_nodes_are_given_back_when_nothing_has_waited_for_a_while() -> None:
    asked = Asked()
    asked.look(5)
    asked.now += WAIT_SECONDS
    asked.look(0)
    assert len(asked.requests) == 1
    asked.now += 1
    asked.look(0)
    asked.look(0)
    assert asked.requests[1:] == [[]]
    asked.look(5)
    assert len(asked.requests) == 3


def test_a_briefly_empty_queue_releases_no_nodes() -> None:
    asked = Asked()
    asked.look(5)
    for _ in range(3):
        asked.now += WAIT_SECONDS
        asked.look(0)
        asked.look(1)
    assert len(asked.requests) == 1


def test_a_cluster_of_fixed_size_gets_no_requests() -> None:
    asked = Asked(())
    asked.look(5)
    asked.now += 2 * WAIT_SECONDS
    asked.look(0)
    assert asked.requests == []


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (None, ()),
        ("", ()),
        ([[1, {"CPU": 2}], [2, {"CPU": 4, "GPU": 1}]], ({"CPU": 2}, *[{"CPU": 4, "GPU": 1}] * 2)),
    ],
)
def test_the_full_size_is_one_bundle_a_node(written: Any, read: tuple[Any, ...]) -> None:
    text = written if isinstance(written, str) else json.dumps(written)
    environment = {} if written is None else {VARIABLE: text}
    assert read_full_size(environment) == read
