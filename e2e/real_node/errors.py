"""Errors of a node, each one sentence for the user."""


class NodeError(Exception):
    """A node could not start, or it broke; the text gives the reason."""
