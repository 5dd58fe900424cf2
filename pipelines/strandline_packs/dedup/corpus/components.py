"""Which nodes hang together, by arrays: pairs come in portions, in any order.

Pure. A node is a number; of nodes that hang together the least stands for all.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Nodes = npt.NDArray[np.int32]


class Components:
    """Nodes 0, 1, 2 and so on, of which none hang together at first; 4 bytes for each.

    Args:
        count: of the nodes.
    """

    def __init__(self, count: int) -> None:
        self._parents = np.arange(count, dtype=np.int32)

    def find(self, nodes: Nodes) -> Nodes:
        """Return the least node that each hangs together with."""
        roots = self._parents[nodes]
        while True:
            above = self._parents[roots]
            if np.array_equal(above, roots):
                break
            roots = above
        self._parents[nodes] = roots  # later calls have a shorter way
        return roots

    def join(self, left: Nodes, right: Nodes) -> None:
        """Make each of `left` hang together with the one of `right` at its index."""
        while len(left):
            left, right = self.find(left), self.find(right)
            differ = left != right
            left, right = left[differ], right[differ]
            # Several may want to hang a root below others: the least wins, the rest try again.
            np.minimum.at(self._parents, np.maximum(left, right), np.minimum(left, right))
