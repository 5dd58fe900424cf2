"""States and marks of nodes, as plain data.

Nodes with overdue pods have a state. All nodes have marks. This module must not depend on the
meaning of a mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from strandline_api.outcome.spot_nodes import is_spot
from strandline_operator.model.objects import Meta, read_time

OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"


class NodeState(StrEnum):
    """State of a node. Values are clauses for messages."""

    GONE = "is gone"
    OUT_OF_SERVICE = "is out of service"
    SILENT = "does not answer"
    WELL = "answers"
    UNREAD = "may not be read by the operator"

    @property
    def is_lost(self) -> bool:
        """Return True if the node object was deleted, or declared out of service."""
        return self in {NodeState.GONE, NodeState.OUT_OF_SERVICE}


@dataclass(frozen=True, slots=True)
class NodeView:
    """State of a node.

    Attributes:
        since: time at which it stopped responding, in seconds since the epoch, or None if unknown.
    """

    state: NodeState
    since: float | None = None


# Maximum number of marks, and of characters per mark. Many programs write to node objects, but
# decisions need only short, known marks.
_MOST_MARKS, _MOST_LETTERS = 32, 200
_SHUTTING_DOWN = "shutting down"


@dataclass(frozen=True, slots=True)
class NodeMarks:
    """Marks of a node that may explain its loss. Other fields of the node object are not kept.

    Attributes:
        is_known: whether the node object was seen. If not, only its name is known.
        is_spot: whether its labels mean spot capacity.
        taints: key and value of each taint.
        conditions: type and reason of each true condition except Ready.
        is_cordoned: whether it accepts no new pods.
        is_silent: whether its kubelet stopped reporting.
        is_unready: whether it reported that it is not ready.
        is_shutting_down: whether its kubelet reports a shutdown.
        is_deleting: whether its object is being deleted.
        is_gone: whether its object existed and was deleted.
    """

    name: str
    is_known: bool = True
    is_spot: bool = False
    taints: tuple[tuple[str, str], ...] = ()
    conditions: tuple[tuple[str, str], ...] = ()
    is_cordoned: bool = False
    is_silent: bool = False
    is_unready: bool = False
    is_shutting_down: bool = False
    is_deleting: bool = False
    is_gone: bool = False


def read_marks(body: Mapping[str, Any]) -> NodeMarks:
    """Return the marks of a node object. Invalid fields count as missing."""
    meta = Meta.read(body)
    spec = body.get("spec")
    conditions = [each for each in _list(body, "status", "conditions") if each.get("type")]
    ready = next((each for each in conditions if _is(each, "Ready")), {})
    true = [each for each in conditions if each.get("status") == "True" and not _is(each, "Ready")]
    message = ready.get("message")
    is_unready = ready.get("status") == "False"
    return NodeMarks(
        name=meta.name,
        is_spot=is_spot(meta.labels),
        taints=_pair(_list(body, "spec", "taints"), "key", "value"),
        conditions=_pair(true, "type", "reason"),
        is_cordoned=isinstance(spec, Mapping) and spec.get("unschedulable") is True,
        is_silent=ready.get("status") == "Unknown",
        is_unready=is_unready,
        is_shutting_down=is_unready and isinstance(message, str) and _SHUTTING_DOWN in message,
        is_deleting=meta.is_deleting,
    )


def _pair(entries: list[Mapping[str, Any]], first: str, second: str) -> tuple[tuple[str, str], ...]:
    """Return two fields of each entry, sorted, because the original order does not matter."""
    pairs = {(_text(entry.get(first)), _text(entry.get(second))) for entry in entries}
    return tuple(sorted(pair for pair in pairs if pair[0])[:_MOST_MARKS])


def _text(value: object) -> str:
    return value[:_MOST_LETTERS] if isinstance(value, str) else ""


def read_node(body: Mapping[str, Any] | None) -> NodeView:
    """Return the state of a node object. None means that the node does not exist.

    Invalid fields count as missing.
    """
    if body is None:
        return NodeView(NodeState.GONE)
    ready = next(
        (condition for condition in _list(body, "status", "conditions") if _is(condition, "Ready")),
        {},
    )
    since = None if ready.get("status") == "True" else read_time(ready.get("lastTransitionTime"))
    if any(taint.get("key") == OUT_OF_SERVICE_TAINT for taint in _list(body, "spec", "taints")):
        return NodeView(NodeState.OUT_OF_SERVICE, since)
    # A node that reports itself as not ready still responds, and terminates its pods.
    is_silent = ready.get("status") == "Unknown"
    return NodeView(NodeState.SILENT, since) if is_silent else NodeView(NodeState.WELL)


def _is(condition: Mapping[str, Any], kind: str) -> bool:
    return condition.get("type") == kind


def _list(body: Mapping[str, Any], part: str, name: str) -> list[Mapping[str, Any]]:
    entries = body.get(part)
    value = entries.get(name) if isinstance(entries, Mapping) else None
    return (
        [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []
    )
