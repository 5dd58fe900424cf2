"""Tracks nodes that are about to leave, and moves data off them first.

Data that is still needed and exists only on departing nodes is copied to another node. Waiting
tasks then use the copy. `DataPort` hides how data is found and copied. This module has no side
effects.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from strandline.engine.call.slots import Slot
from strandline.engine.core.ports import DepartureNotice
from strandline.engine.core.workers import Call
from strandline.engine.flow.flow import Flow
from strandline.engine.preemption.nodes import LostNodes

SETTLE_SECONDS = 1.0
COPIES = 64  # maximum number of simultaneous copies


class DataPort(Protocol):
    """Finds and copies the data of calls. Blocks are opaque and hashable."""

    def find_homes(self, blocks: Sequence[Any]) -> Mapping[Any, Collection[str]]:
        """Return the nodes that hold each block; no nodes if the reference itself has the data."""

    def copy(self, block: Any, avoid: Collection[str]) -> Any | None:  # noqa: ANN401 - a reference
        """Begin a copy on another node. Return None if there is no other node."""

    def is_made(self, copy: Any) -> bool | None:  # noqa: ANN401 - a reference
        """Return whether a copy is complete, or None if the copy has failed."""


class Departures:
    """Accepted notices, by the node's name in the notice."""

    def __init__(self, marks: LostNodes) -> None:
        self._marks = marks
        self._taken: dict[str, DepartureNotice] = {}
        self._nodes: dict[str, frozenset[str]] = {}
        self._busy_at: dict[str, float] = {}

    def take(
        self,
        notices: Iterable[DepartureNotice],
        find_nodes: Callable[[str], Collection[str]],
        now: float,
    ) -> list[str]:
        """Mark the nodes of new notices. Return a sentence for each newly marked node.

        Args:
            find_nodes: returns the ids of live nodes with a name.
        """
        sentences = []
        for notice in notices:
            if self._taken.get(notice.node) == notice:
                continue
            self._taken[notice.node] = notice
            # Look up the nodes only once: a later node may get the same address.
            nodes = frozenset(find_nodes(notice.node)) - {self._marks.here} - self._marks.gone
            self._nodes[notice.node] = nodes
            for node in nodes:
                if node not in self._marks.leaving:
                    why = f": {notice.why}" if notice.why else ""
                    seconds = max(0.0, notice.goes_at - now)
                    sentences.append(f"node {notice.node} will be removed in {seconds:.0f} s{why}")
                known = self._marks.leaving.get(node, math.inf)
                self._marks.leaving[node] = min(known, notice.goes_at)
        return sentences

    def settle(self, pending: Mapping[str, int], now: float) -> dict[str, int]:
        """Return the work left on each leaving node, by node id.

        A node without work is reported as busy for a short delay, because the location of a result
        becomes known only a moment after the result exists.
        """
        settled = dict(pending)
        for node in self._marks.leaving:
            if settled.get(node):
                self._busy_at[node] = now
            elif now - self._busy_at.setdefault(node, now) < SETTLE_SECONDS:
                settled[node] = 1
        return settled

    def sum_up(self, pending: Mapping[str, int]) -> dict[str, int]:
        """Return the work left on nodes, by the names in the notices.

        Args:
            pending: the work left on nodes, by node id.
        """
        return {
            name: sum(pending.get(node, 0) for node in nodes if node not in self._marks.gone)
            for name, nodes in self._nodes.items()
        }


class Evacuation:
    """Moves data away from departing nodes.

    Args:
        list_calls: returns all calls that were sent to workers and have not ended.
    """

    def __init__(
        self, flow: Flow, list_calls: Callable[[], Iterable[Call]], port: DataPort
    ) -> None:
        self._flow = flow
        self._list_calls = list_calls
        self._port = port
        self._copies: dict[Any, Any] = {}

    def look(self, going: Collection[str]) -> Counter[str]:
        """Copy needed data that only these nodes hold. Return the number of blocks left there."""
        homes = self._port.find_homes(self._list_blocks())
        stuck = {
            block: set(nodes)
            for block, nodes in homes.items()
            if nodes and set(nodes) <= set(going)
        }
        made = {block: self._port.is_made(copy) for block, copy in self._copies.items()}
        moved = {block: copy for block, copy in self._copies.items() if made[block]}
        # Forget failed copies, which were lost with another node, so that they are made again.
        self._copies = {
            block: copy
            for block, copy in self._copies.items()
            if block in stuck and made[block] is False
        }
        self._swap(moved)
        for block in stuck.keys() - moved.keys() - self._copies.keys():
            copy = self._port.copy(block, going) if len(self._copies) < COPIES else None
            if copy is not None:
                self._copies[block] = copy
        return Counter(node for block in stuck.keys() - moved.keys() for node in stuck[block])

    def _list_blocks(self) -> list[Any]:
        blocks: dict[Any, None] = {}

        def note(slot: Slot) -> Slot:
            if isinstance(slot.block, Hashable):  # the driver holds all other blocks
                blocks[slot.block] = None
            return slot

        self._flow.change(note)
        # Include calls that workers are processing: if their node is lost, they are repeated and
        # need their blocks again.
        for call in self._list_calls():
            for slot in call.batch:
                note(slot)
        return [block for block in blocks if block is not None]

    def _swap(self, moved: Mapping[Any, Any]) -> None:
        if not moved:
            return

        def change(slot: Slot) -> Slot:
            is_moved = isinstance(slot.block, Hashable) and slot.block in moved
            return slot._replace(block=moved[slot.block]) if is_moved else slot

        self._flow.change(change)
        for call in self._list_calls():
            call.batch = list(map(change, call.batch))
