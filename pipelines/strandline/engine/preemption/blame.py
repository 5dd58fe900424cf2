"""Records which tasks are blamed for worker deaths, until a node turns out to be the cause.

This module has no side effects. Tasks are opaque tokens. The caller decides what happens to a task
with too many deaths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple


class WorkerDeath(NamedTuple):
    """A worker's death that a task is blamed for.

    Attributes:
        node: the worker's node.
        sure_at: time from which a lost node is ruled out as the cause.
    """

    node: str
    sure_at: float


class Blame:
    """Worker deaths by task. Deaths due to lost nodes are removed."""

    def __init__(self) -> None:
        self._deaths: dict[bytes, list[WorkerDeath]] = {}
        self._out_of_reach: dict[str, Counter[bytes]] = {}

    def note(self, tasks: Iterable[bytes], death: WorkerDeath) -> None:
        """Blame tasks for the death of a worker that was processing them."""
        for task in tasks:
            self._deaths.setdefault(task, []).append(death)

    def inherit(self, task: bytes, parent: bytes) -> None:
        """Blame a task for the deaths that its parent is blamed for."""
        if task != parent and parent in self._deaths:
            self._deaths[task] = list(self._deaths[parent])

    def count(self, task: bytes) -> int:
        """Return the number of workers that a task is blamed for."""
        return len(self._deaths.get(task, ()))

    def find_sure_at(self, tasks: Iterable[bytes]) -> float:
        """Return the time from which all deaths blamed on the tasks are certain."""
        deaths = (death for task in tasks for death in self._deaths.get(task, ()))
        return max((death.sure_at for death in deaths), default=0.0)

    def note_out_of_reach(self, tasks: Iterable[bytes], node: str) -> int:
        """Record tasks whose worker became unreachable. Return the highest count of any task."""
        listed = list(tasks)
        self._out_of_reach.setdefault(node, Counter()).update(listed)
        seen = self._out_of_reach.values()
        return max((sum(counts[task] for counts in seen) for task in listed), default=0)

    def forgive(self, nodes: Iterable[str]) -> None:
        """Remove the records of nodes that turned out to be dead."""
        gone = set(nodes)
        for node in gone:
            self._out_of_reach.pop(node, None)
        left = {
            task: [death for death in deaths if death.node not in gone]
            for task, deaths in self._deaths.items()
        }
        self._deaths = {task: deaths for task, deaths in left.items() if deaths}
