"""Nodes, as plain data: how a node with overdue pods stands, and what marks it otherwise.

This room must not know which mark means what.
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
    """How a node stands, in the words of a sentence about it."""

    GONE = "is gone"
    OUT_OF_SERVICE = "is out of service"
    SILENT = "does not answer"
    WELL = "answers"
    UNREAD = "may not be read by the operator"

    @property
    def is_lost(self) -> bool:
        """Nothing runs there any more, by the word of the cluster's administrator."""
        return self in {NodeState.GONE, NodeState.OUT_OF_SERVICE}


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node.

    Attributes:
        since: when it fell silent, in seconds since the epoch; None where unknown.
    """

    state: NodeState
    since: float | None = None


# Many programs write nodes' objects; a decision needs no more marks, and no longer ones.
_MOST_MARKS, _MOST_LETTERS = 32, 200
_SHUTTING_DOWN = "shutting down"


@dataclass(frozen=True, slots=True)
class NodeMarks:
    """A node object's marks of its taker: all that is kept of it.

    Attributes:
        is_known: its object was seen; without that nothing but its name is known.
        is_spot: its labels are those of spot capacity.
        taints: key and value of each.
        conditions: type and reason of those that are true, but for Ready.
        is_cordoned: no new pods are let in.
        is_silent: its kubelet is not heard of.
        is_unready: it answers, or did, and is not ready.
        is_shutting_down: its kubelet says so.
        is_deleting: its object is being deleted.
        is_gone: its object was there, and is not any more.
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
    """Return a node's marks from its object. Odd fields count as missing."""
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
    """Return two fields of each entry, in order, so that their order makes no difference."""
    pairs = {(_text(entry.get(first)), _text(entry.get(second))) for entry in entries}
    return tuple(sorted(pair for pair in pairs if pair[0])[:_MOST_MARKS])


def _text(value: object) -> str:
    return value[:_MOST_LETTERS] if isinstance(value, str) else ""


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
    # A node that reports itself as not ready still answers, and ends its pods.
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
