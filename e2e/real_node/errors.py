"""Errors of a node. Each message is one sentence for the user."""


class NodeError(Exception):
    """A node did not start, or it broke. The message gives the reason."""
