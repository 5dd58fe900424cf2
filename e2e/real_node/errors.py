"""What can go wrong with a node, in one sentence for its user."""


class NodeError(Exception):
    """There is no node to be had, or it broke; the text says why."""
