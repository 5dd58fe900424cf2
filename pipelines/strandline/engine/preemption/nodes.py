"""Which nodes are gone, which are going, and when it is certain that one has stayed. Pure.

A worker that dies with its node is often missed before its node is: by the time at which a death is
sure, it is known whether the node went too. It must not know how a node is asked.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

# A Ray that is told to go takes itself off the list at once; one that is ended just so is missed
# after five checks that are refused.
DEATH_SECONDS = 20.0
# On a silent machine each of the five checks is waited for.
SILENCE_SECONDS = 90.0
# A node that is there so long after its time was not taken away after all.
STAY_SECONDS = 120.0


@dataclass(slots=True)
class LostNodes:
    """What is known of nodes, by their ids.

    Attributes:
        here: the driver's own, which is there as long as this runs.
        gone: those that have died.
        leaving: when each goes that is going, by the driver's clock.
    """

    here: str = ""
    gone: set[str] = field(default_factory=set)
    leaving: dict[str, float] = field(default_factory=dict)

    def learn(self, dead: Collection[str]) -> set[str]:
        """Take in which nodes are dead; return those that were not known."""
        fresh = set(dead) - self.gone
        self.gone |= fresh
        return fresh

    def expire(self, now: float) -> None:
        """Trust nodes again that were to be gone long ago and are there."""
        self.leaving = {
            node: goes_at
            for node, goes_at in self.leaving.items()
            if node not in self.gone and now < goes_at + STAY_SECONDS
        }

    def is_going(self, node: str) -> bool:
        """Return whether what dies on a node dies of the node."""
        return node in self.gone or node in self.leaving

    def find_sure_at(self, node: str, now: float, seconds: float) -> float:
        """Return when it is certain that a worker that died did not die of its node.

        Args:
            seconds: by then a node's death is known.
        """
        return now if node in ("", self.here) else now + seconds
