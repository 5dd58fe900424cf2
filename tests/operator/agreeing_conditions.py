"""Finds conditions of a pipeline's status that contradict each other.

The module compares the written status and must not depend on how the operator decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Body = dict[str, Any]
# Condition reasons that blame nodes. The pattern below matches scheduler messages that blame a
# claim.
_OF_NODES = frozenset({"Unschedulable", "NoRoom", "NodeOnItsWay"})
_OF_CLAIMS = re.compile("persistentvolume|persistent volume|storageclass", re.IGNORECASE)
# Defects of a claim that do not prevent pods from using the claim.
_USABLE = frozenset({"ClaimNotGrown", "ClaimFull", "ClaimNotShared"})
# Reasons of a run that is paused but has not ended.
_HELD = frozenset({"Held", "ComesAfterItself", "InvalidSpec"})
_SHOWN_ALONE = ("Stalled", "Reconciling", "Suspended")
_PHASES = {"True": {"Succeeded"}, "False": {"Failed"}}


def find_contradictions(status: Body) -> list[str]:
    """Return a sentence for each contradiction in a pipeline's status, or an empty list."""
    conditions = {each["type"]: each for each in status.get("conditions", [])}
    summary = conditions.get("Succeeded")
    if summary is None:
        return ["Succeeded is missing"]
    return [
        *_compare_shown(conditions, summary),
        *_compare_storage(conditions.get("StorageReady"), summary),
        *_compare_words(status, summary),
    ]


def _compare_shown(conditions: dict[str, Body], summary: Body) -> Iterator[str]:
    shown = [name for name in _SHOWN_ALONE if name in conditions]
    if len(shown) > 1:
        yield f"{' and '.join(shown)} are both there"
    for name in shown:
        other = conditions[name]
        says = (other["reason"], other["message"])
        # Skip Suspended: while an attempt still ends, this condition has a message of its own.
        if name != "Suspended" and says != (summary["reason"], summary["message"]):
            yield f"{name} says {says}, Succeeded {summary['reason']}: {summary['message']}"
    if "Stalled" in conditions and summary["status"] != "False" and summary["reason"] not in _HELD:
        yield f"Stalled is there, and Succeeded is {summary['status']}"
    if "Reconciling" in conditions and summary["status"] != "Unknown":
        yield f"Reconciling is there, and Succeeded is {summary['status']}"


def _compare_storage(storage: Body | None, summary: Body) -> Iterator[str]:
    if storage is None or summary["status"] != "Unknown":
        return
    reason, message = summary["reason"], summary["message"]
    if reason in _OF_NODES and _OF_CLAIMS.search(message):
        yield f"{reason} blames nodes for a claim: {message}"
    is_broken = storage["status"] == "False" and storage["reason"] not in _USABLE
    if is_broken and reason in _OF_NODES | {"ClaimPending"}:
        yield f"StorageReady says {storage['reason']}, Succeeded {reason}"


def _compare_words(status: Body, summary: Body) -> Iterator[str]:
    phase, state, message = status["phase"], status.get("state", ""), summary["message"]
    allowed = _PHASES.get(summary["status"])
    if allowed is not None and phase not in allowed:
        yield f"phase {phase}, and Succeeded is {summary['status']}"
    if allowed is None and phase in {"Succeeded", "Failed"} and summary["reason"] not in _HELD:
        yield f"phase {phase}, and Succeeded is Unknown"
    # The state contains the message or the beginning of the message, or adds a detail to it.
    words = state.partition(": ")[2] if state.startswith("attempt ") else state
    if words and words.rstrip(".") not in message and message not in state:
        yield f"state {state!r}, and Succeeded says {message!r}"
