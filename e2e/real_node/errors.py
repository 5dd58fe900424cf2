"""Errors of a node. Each message is one sentence for the user."""


class NodeError(Exception):
    """Raised if a node did not start or broke down. The message gives the reason."""
