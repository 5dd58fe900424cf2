"""Causes of consecutive losses in a pool, without a success between them. Pure.

The module must not know workers, or the consequences of many losses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from strandline.engine.call.slots import Entry


class Loss(NamedTuple):
    """A worker that was lost, since the last success of its stage.

    Attributes:
        sources: of which one may be to blame; none where the worker had nothing to do, or where it
            can't be told.
        turns: of one out of reach, how often what it had was lost so; 0 of any other.
        node: the one that it was on.
        sure_at: when it is certain that it was not lost with its node, by the driver's clock.
    """

    sources: frozenset[bytes] = frozenset()
    turns: int = 0
    node: str = ""
    sure_at: float = 0.0


class ChainStreak:
    """The losses of one pool since its last success, for each stage of its chain.

    A worker that dies over several stages may have died of any of them; one that was given a
    single one has died of that. So may a success be of all stages or of one.
    """

    def __init__(self, stages: int = 1) -> None:
        self._losses: list[list[Loss]] = [[] for _ in range(stages)]
        self._causes = [0] * stages

    @property
    def causes(self) -> int:
        """Causes of losses, of the stage that has most; losses over one source have one cause."""
        return max(self._causes)

    @property
    def culprit(self) -> int | None:
        """The number of that stage; None where several have as many."""
        return self._causes.index(self.causes) if self._causes.count(self.causes) == 1 else None

    def count_sure(self, now: float) -> int:
        """Return causes, as `causes`, of losses that are certain not to be of a node."""
        sure = ([loss for loss in losses if loss.sure_at <= now] for losses in self._losses)
        return max(map(_count_causes, sure))

    def note(
        self, entry: Entry, sources: Collection[bytes] = (), node: str = "", sure_at: float = 0.0
    ) -> None:
        """Count a worker that was lost; see `Loss`."""
        self._add(entry, Loss(frozenset(sources), 0, node, sure_at))

    def note_again(self, entry: Entry, times: int, node: str = "", sure_at: float = 0.0) -> None:
        """Count a worker that went out of reach, most likely with its node.

        Args:
            times: that what it had was lost so. Once is a lost node and no cause; whatever is lost
                with a node was lost about as often, and is one.
        """
        if times > 1:
            self._add(entry, Loss(frozenset(), times, node, sure_at))

    def forgive(self, nodes: Collection[str]) -> None:
        """Take back the losses of workers on nodes that turned out to have gone."""
        for link, losses in enumerate(self._losses):
            self._losses[link] = [loss for loss in losses if loss.node not in nodes]
            self._causes[link] = _count_causes(self._losses[link])

    def end(self, entry: Entry) -> None:
        """End the streak, since there was a success."""
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
    """Return what workers were lost to in a row; several over one source are one."""
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
            # Groups that were lost in its company were lost to it, most likely.
            unexplained = [group for group in exposed if not loss.sources <= group]
            causes += 1 - (len(exposed) - len(unexplained))
            exposed = unexplained
            culprits |= loss.sources
    return causes
