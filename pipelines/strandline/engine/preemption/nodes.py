"""Tracks which nodes are dead or leaving, and when a node has certainly survived.

The death of a worker is often noticed before the death of its node. Therefore, a worker's death is
only certain after enough time for the node's death to become known. This module has no side
effects, and must not depend on how nodes are queried.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

# A Ray node that is shut down deregisters immediately. After a kill, five health checks must fail
# before Ray declares the node dead.
DEATH_SECONDS = 20.0
# If a machine does not respond at all, each of the five checks waits for its timeout.
SILENCE_SECONDS = 90.0
# A node that still exists this long after its announced departure has not left after all.
STAY_SECONDS = 120.0


@dataclass(slots=True)
class LostNodes:
    """Dead and leaving nodes, by node id.

    Attributes:
        here: the driver's own node, which exists as long as the driver runs.
        gone: dead nodes.
        leaving: the departure times of leaving nodes, by the driver's clock.
    """

    here: str = ""
    gone: set[str] = field(default_factory=set)
    leaving: dict[str, float] = field(default_factory=dict)

    def learn(self, dead: Collection[str]) -> set[str]:
        """Record dead nodes. Return the newly dead nodes."""
        fresh = set(dead) - self.gone
        self.gone |= fresh
        return fresh

    def expire(self, now: float) -> None:
        """Stop treating nodes as leaving if they exist long after their announced departure."""
        self.leaving = {
            node: goes_at
            for node, goes_at in self.leaving.items()
            if node not in self.gone and now < goes_at + STAY_SECONDS
        }

    def is_going(self, node: str) -> bool:
        """Return whether deaths on a node are attributed to the node."""
        return node in self.gone or node in self.leaving

    def find_sure_at(self, node: str, now: float, seconds: float) -> float:
        """Return the time from which a lost node is ruled out as the cause of a worker's death.

        Args:
            seconds: time until a node's death is known.
        """
        return now if node in ("", self.here) else now + seconds
