"""Helpers that read and build Kubernetes objects.

This module does no I/O.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]

GROUP = "ray.io/v1"
CLUSTER_LABEL = "ray.io/cluster"
NODE_LABEL = "ray.io/node-type"
GROUP_LABEL = "ray.io/group"
INDEX_LABEL = "ray.io/worker-group-replica-index"
NO_HEAD_RESTART = "ray.io/disable-provisioned-head-restart"
MADE_BY = {"app.kubernetes.io/created-by": "kuberay-operator"}


def format_time(moment: datetime) -> str:
    """Format a time as Kubernetes does: UTC, whole seconds."""
    return moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def read_time(text: str) -> datetime:
    """Parse a Kubernetes time."""
    return datetime.fromisoformat(text)


def get_name(body: Json) -> str:
    """Return the name of an object."""
    return str(body["metadata"]["name"])


def get_status(body: Json) -> Json:
    """Return the status of an object, not a copy, or an empty one if the object has no status."""
    return body.get("status") or {}


def is_leaving(body: Json) -> bool:
    """Return whether an object's deletion has begun."""
    return bool(body["metadata"].get("deletionTimestamp"))


def find_condition(body: Json, kind: str) -> Json | None:
    """Return the condition of this type from an object's status, or None if it is missing."""
    conditions = get_status(body).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == kind), None)


def has_condition(body: Json, kind: str) -> bool:
    """Return whether an object has a condition with status True."""
    found = find_condition(body, kind)
    return found is not None and found["status"] == "True"


def refer(owner: Json) -> Json:
    """Render an owner reference. Deleting the owner also deletes its dependents."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": get_name(owner),
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
