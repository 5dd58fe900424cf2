"""Asks Ray's autoscaler for more nodes while work waits, and for none once it doesn't.

Workers are started only where there is room, so the autoscaler would never see one that waits; it
is told of the whole cluster that the pipeline allows instead. Which nodes it may remove it knows
itself: those that hold no worker. This room must not know how a node is made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from strandline.engine.flow.stage_queue import StageQueue

# The resources of a cluster of full size: a list of counts and resources, `[[4, {"CPU": 8}]]`.
VARIABLE = "STRANDLINE_FULL_SIZE"
WAIT_SECONDS = 60.0

Bundle = Mapping[str, float]
Request = Callable[[list[dict[str, float]]], None]


def read_full_size(environment: Mapping[str, str]) -> tuple[Bundle, ...]:
    """Return one bundle of resources for each node of a cluster of full size.

    Empty where it is fixed.
    """
    listed: list[Any] = json.loads(environment.get(VARIABLE) or "[]")
    return tuple(dict(bundle) for count, bundle in listed for _ in range(count))


def request_nodes(bundles: list[dict[str, float]]) -> None:
    """Tell the autoscaler what the cluster is to have at least; it holds until the next time."""
    from ray.autoscaler.sdk import request_resources  # noqa: PLC0415 - most clusters have a size

    request_resources(bundles=bundles)


class Demand:
    """What was asked for, and whether that is still so.

    Args:
        full: one bundle for each node of a cluster of full size; empty: nothing is ever asked.
        now: seconds from any fixed point.
    """

    def __init__(
        self, full: Sequence[Bundle], now: Callable[[], float], request: Request = request_nodes
    ) -> None:
        self._full = [dict(bundle) for bundle in full]
        self._now = now
        self._request = request
        self._is_asked = False
        self._wanted_at = now()

    def look(self, queues: Sequence[StageQueue], sources_left: int | None) -> None:
        """Ask for all nodes where work waits, and take that back where none has for a while.

        Args:
            sources_left: listed and in no queue yet; None while the listing goes on.
        """
        if not self._full:
            return
        if wants_more(queues, sources_left):
            self._wanted_at = self._now()
            self._ask(is_asked=True)
        elif self._now() - self._wanted_at > WAIT_SECONDS:
            self._ask(is_asked=False)

    def _ask(self, *, is_asked: bool) -> None:
        if is_asked != self._is_asked:
            self._request(self._full if is_asked else [])
            self._is_asked = is_asked


def wants_more(queues: Sequence[StageQueue], sources_left: int | None) -> bool:
    """Return whether more workers would find something to do.

    Queues are kept short while sources follow, so any task that waits is a sign then; at the end
    it takes more than what is being worked on.
    """
    waiting = sum(len(queue) for queue in queues)
    if sources_left is None or sources_left > 0:
        return waiting > 0
    return waiting > sum(queue.running for queue in queues)
