"""Nodes whose pods ought to have gone and have not: what is known of them, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from strandline_operator.model.objects import read_time

OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"


class NodeState(StrEnum):
    """How a node stands, in the words of a sentence about it."""

    GONE = "is gone"
    OUT_OF_SERVICE = "is out of service"
    SILENT = "does not answer"
    WELL = "answers"
    UNREAD = "may not be read by the operator"

    @property
    def is_lost(self) -> bool:
        """Nothing runs there any more, on the word of whoever looks after the cluster."""
        return self in {NodeState.GONE, NodeState.OUT_OF_SERVICE}


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node.

    Attributes:
        since: when it fell silent, in seconds since the epoch; None where unknown.
    """

    state: NodeState
    since: float | None = None


def read_node(body: Mapping[str, Any] | None) -> NodeView:
    """Return a node from its object; None: there is no such node. Odd fields count as missing."""
    if body is None:
        return NodeView(NodeState.GONE)
    ready = next(
        (condition for condition in _list(body, "status", "conditions") if _is(condition, "Ready")),
        {},
    )
    since = None if ready.get("status") == "True" else read_time(ready.get("lastTransitionTime"))
    if any(taint.get("key") == OUT_OF_SERVICE_TAINT for taint in _list(body, "spec", "taints")):
        return NodeView(NodeState.OUT_OF_SERVICE, since)
    # One that says itself that it is not ready still answers, and ends its pods.
    is_silent = ready.get("status") == "Unknown"
    return NodeView(NodeState.SILENT, since) if is_silent else NodeView(NodeState.WELL)


def _is(condition: Mapping[str, Any], kind: str) -> bool:
    return condition.get("type") == kind


def _list(body: Mapping[str, Any], part: str, name: str) -> list[Mapping[str, Any]]:
    found = body.get(part)
    value = found.get(name) if isinstance(found, Mapping) else None
    return (
        [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []
    )
