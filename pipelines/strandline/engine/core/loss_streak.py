"""How many causes the workers had that a pool lost in a row. Pure.

A pool that loses workers to as many causes as the engine bears is broken; one source that takes
several with it is one cause. It must not know what a worker is, or what is done about a loss.
"""

from __future__ import annotations

from collections.abc import Collection


class LossStreak:
    """The losses of one pool since its last success."""

    def __init__(self) -> None:
        self._culprits: set[bytes] = set()
        self._crowds: list[frozenset[bytes]] = []
        self._turns: set[int] = set()
        self.causes = 0

    def note(self, sources: Collection[bytes] = ()) -> None:
        """A worker was lost.

        Args:
            sources: of which one may be to blame; none where the worker had nothing to do, or
                where it can't be told.
        """
        suspects = frozenset(sources)
        if len(suspects) == 1:
            self._blame(*suspects)
            return
        self.causes += 1
        if suspects:
            self._crowds.append(suspects)

    def note_again(self, times: int) -> None:
        """A worker went out of reach, most likely with its node.

        Args:
            times: that what it had was lost so. Once is a lost node and no cause; whatever is lost
                with a node was lost about as often, and is one.
        """
        if times > 1 and times not in self._turns:
            self._turns.add(times)
            self.causes += 1

    def end(self) -> None:
        """There was a success."""
        self._culprits.clear()
        self._crowds.clear()
        self._turns.clear()
        self.causes = 0

    def _blame(self, source: bytes) -> None:
        if source in self._culprits:
            return
        self._culprits.add(source)
        explained = [crowd for crowd in self._crowds if source in crowd]
        self._crowds = [crowd for crowd in self._crowds if source not in crowd]
        self.causes += 1 - len(explained)
