"""Finds connected components, using arrays. Pairs of nodes arrive in portions, in any order.

This module does no I/O. A node is an integer, and the smallest node of a component represents the
component.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Nodes = npt.NDArray[np.int32]


class Components:
    """Nodes 0, 1, 2, and so on, initially unconnected. Each node takes 4 bytes.

    Args:
        count: number of nodes.
    """

    def __init__(self, count: int) -> None:
        self._parents = np.arange(count, dtype=np.int32)

    def find(self, nodes: Nodes) -> Nodes:
        """Return the smallest node in the component of each node."""
        roots = self._parents[nodes]
        while True:
            above = self._parents[roots]
            if np.array_equal(above, roots):
                break
            roots = above
        self._parents[nodes] = roots  # shorten the paths for later calls
        return roots

    def join(self, left: Nodes, right: Nodes) -> None:
        """Connect each node of `left` with the node of `right` at the same index."""
        while len(left):
            left, right = self.find(left), self.find(right)
            differ = left != right
            left, right = left[differ], right[differ]
            # Several pairs may set the parent of the same root. The smallest parent wins, and the
            # loop repeats for the other pairs.
            np.minimum.at(self._parents, np.maximum(left, right), np.minimum(left, right))
