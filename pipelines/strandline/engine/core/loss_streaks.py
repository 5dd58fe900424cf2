"""Counts consecutive losses of workers in a pool, by cause, without a success in between.

This module has no side effects, and must not depend on workers or on the consequences of many
losses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from strandline.engine.call.slots import Entry


class Loss(NamedTuple):
    """A worker that was lost since the last success of its stage.

    Attributes:
        sources: sources, any of which may be to blame; empty if the worker was idle or its sources
            are unknown.
        turns: for an unreachable worker, how often its work was lost this way; otherwise 0.
        node: the worker's node.
        sure_at: driver time from which the loss is certainly not due to a lost node.
    """

    sources: frozenset[bytes] = frozenset()
    turns: int = 0
    node: str = ""
    sure_at: float = 0.0


class ChainStreak:
    """Losses of one pool since its last success, for each stage of its chain.

    If a worker dies in a call through several stages, any of these stages may be to blame. A call
    that is limited to one stage blames only that stage. A success clears the losses of all stages
    of the call.
    """

    def __init__(self, stages: int = 1) -> None:
        self._losses: list[list[Loss]] = [[] for _ in range(stages)]
        self._causes = [0] * stages

    @property
    def causes(self) -> int:
        """Number of causes in the stage with the most. Losses over one source share a cause."""
        return max(self._causes)

    @property
    def culprit(self) -> int | None:
        """Index of the stage with the most causes, or None if several stages tie."""
        return self._causes.index(self.causes) if self._causes.count(self.causes) == 1 else None

    def count_sure(self, now: float) -> int:
        """Count causes like `causes`, but ignore losses that a lost node may explain."""
        sure = ([loss for loss in losses if loss.sure_at <= now] for losses in self._losses)
        return max(map(_count_causes, sure))

    def note(
        self, entry: Entry, sources: Collection[bytes] = (), node: str = "", sure_at: float = 0.0
    ) -> None:
        """Record a lost worker; see `Loss`."""
        self._add(entry, Loss(frozenset(sources), 0, node, sure_at))

    def note_again(self, entry: Entry, times: int, node: str = "", sure_at: float = 0.0) -> None:
        """Record a worker that became unreachable, probably together with its node.

        Args:
            times: how often the same work was lost this way. The first loss is attributed to the
                node
                and is not counted. Workers lost with the same node have the same count, so losses
                with equal counts share one cause.
        """
        if times > 1:
            self._add(entry, Loss(frozenset(), times, node, sure_at))

    def forgive(self, nodes: Collection[str]) -> None:
        """Remove the losses of workers whose nodes turned out to be dead."""
        for link, losses in enumerate(self._losses):
            self._losses[link] = [loss for loss in losses if loss.node not in nodes]
            self._causes[link] = _count_causes(self._losses[link])

    def end(self, entry: Entry) -> None:
        """End the streak after a success."""
        for link in self._list_touched(entry):
            self._losses[link].clear()
            self._causes[link] = 0

    def _add(self, entry: Entry, loss: Loss) -> None:
        for link in self._list_touched(entry):
            self._losses[link].append(loss)
            self._causes[link] = _count_causes(self._losses[link])

    def _list_touched(self, entry: Entry) -> range:
        link, is_alone = entry
        return range(link, link + 1 if is_alone else len(self._losses))


def _count_causes(losses: Iterable[Loss]) -> int:
    """Count the causes of consecutive losses. Losses over the same source share a cause."""
    culprits: set[bytes] = set()
    exposed: list[frozenset[bytes]] = []
    turns: set[int] = set()
    causes = 0
    for loss in losses:
        if loss.turns:
            causes += loss.turns not in turns
            turns.add(loss.turns)
        elif len(loss.sources) != 1:
            causes += 1
            exposed += [loss.sources] if loss.sources else []
        elif not loss.sources <= culprits:
            # If a group of sources with this source was lost earlier, this source most likely
            # caused that loss too.
            unexplained = [group for group in exposed if not loss.sources <= group]
            causes += 1 - (len(exposed) - len(unexplained))
            exposed = unexplained
            culprits |= loss.sources
    return causes
