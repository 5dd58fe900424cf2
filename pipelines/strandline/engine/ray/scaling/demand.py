"""Requests more nodes from Ray's autoscaler while work waits, and cancels the request afterwards.

Workers are started only if there is capacity, so the autoscaler never sees a pending worker.
Therefore, the request covers the full size that the pipeline allows. The autoscaler itself removes
nodes without workers. The module must not depend on how nodes are created.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from strandline.engine.flow.stage_queue import StageQueue

# Environment variable with the resources of a cluster at full size: a list of counts and resources,
# such as `[[4, {"CPU": 8}]]`.
VARIABLE = "STRANDLINE_FULL_SIZE"
WAIT_SECONDS = 60.0  # time without waiting work after which the request is canceled

Bundle = Mapping[str, float]
Request = Callable[[list[dict[str, float]]], None]


def read_full_size(environment: Mapping[str, str]) -> tuple[Bundle, ...]:
    """Return one bundle of resources for each node of a cluster at full size.

    The result is empty if the cluster has a fixed size.
    """
    listed: list[Any] = json.loads(environment.get(VARIABLE) or "[]")
    return tuple(dict(bundle) for count, bundle in listed for _ in range(count))


def request_nodes(bundles: list[dict[str, float]]) -> None:
    """Set the minimum resources of the cluster in the autoscaler, until the next request."""
    from ray.autoscaler.sdk import request_resources  # noqa: PLC0415 - most clusters have a size

    request_resources(bundles=bundles)


class Demand:
    """The current request to the autoscaler, and whether the request is still needed.

    Args:
        full: one bundle for each node of a cluster at full size; if empty, nothing is requested.
        now: returns seconds from any fixed point.
        request: sends a request to the autoscaler.
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
        """Request all nodes while work waits. Cancel after `WAIT_SECONDS` without waiting work.

        Args:
            queues: the queues of the run.
            sources_left: number of listed sources that are in no queue yet; None before the end of
                the listing.
        """
        if not self._full:
            return
        if wants_more(queues, sources_left):
            self._wanted_at = self._now()
            self._ask(is_asked=True)
        elif self._now() - self._wanted_at > WAIT_SECONDS:
            self._ask(is_asked=False)

    def _ask(self, *, is_asked: bool) -> None:
        # Send only changes, because the autoscaler keeps the last request.
        if is_asked != self._is_asked:
            self._request(self._full if is_asked else [])
            self._is_asked = is_asked


def wants_more(queues: Sequence[StageQueue], sources_left: int | None) -> bool:
    """Return whether more workers would have work.

    While the listing continues, queues are kept short, so any waiting task means that there is
    enough work. At the end, more tasks must wait than run.
    """
    waiting = sum(len(queue) for queue in queues)
    if sources_left is None or sources_left > 0:
        return waiting > 0
    return waiting > sum(queue.running for queue in queues)
