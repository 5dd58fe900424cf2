"""Which nodes are gone or leaving, and when a node is certain to have stayed. Pure.

The death of a worker is often noticed before the death of its node. By the time a death counts as
certain, the fate of the node is known too. The module must not depend on the way nodes are queried.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

# A Ray node that is shut down deregisters at once. After a kill, five refused health checks must
# pass before Ray declares the node dead.
DEATH_SECONDS = 20.0
# On a silent machine, each of the five checks waits for its timeout.
SILENCE_SECONDS = 90.0
# A node that exists this long after its announced departure was not taken away after all.
STAY_SECONDS = 120.0


@dataclass(slots=True)
class LostNodes:
    """Known facts about nodes, by node id.

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
        """Trust nodes again that exist long after their announced departure."""
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
            seconds: time after which a node's death is known.
        """
        return now if node in ("", self.here) else now + seconds
