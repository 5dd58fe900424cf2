"""Reads Kueue's Workloads. Each RayJob in a queue has one, which shows why the RayJob waits.

The operator does not watch Workloads. If Kueue, or the permission to read its objects, is missing,
that is a state and not an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from strandline_operator.model.notices import QueueState
from strandline_operator.model.objects import Meta, read_list, read_mapping, read_time
from strandline_operator.model.plan import ObjectKind

Json = Mapping[str, Any]
_NO_QUEUE = "the pipeline names no queue in `ray.queueName`"


class KueueKind(ObjectKind):
    """Kinds of Kueue's API.

    After Kueue introduces a version, it serves the previous version for a few more releases.
    """

    WORKLOAD = "workloads.kueue.x-k8s.io"
    LOCAL_QUEUE = "localqueues.kueue.x-k8s.io"
    FORMER_WORKLOAD = "workloads.v1beta1.kueue.x-k8s.io"
    FORMER_LOCAL_QUEUE = "localqueues.v1beta1.kueue.x-k8s.io"

    @property
    def root(self) -> str:
        """The path of the kind's API version."""
        return f"/apis/kueue.x-k8s.io/{'v1beta1' if '.v1beta1.' in self else 'v1beta2'}"


class ApiVersion(NamedTuple):
    """The kinds of one version of Kueue's API."""

    workload: KueueKind
    queue: KueueKind


VERSIONS = (
    ApiVersion(KueueKind.WORKLOAD, KueueKind.LOCAL_QUEUE),
    ApiVersion(KueueKind.FORMER_WORKLOAD, KueueKind.FORMER_LOCAL_QUEUE),
)


def read_workloads(workloads: Iterable[Json], queue: str) -> QueueState | None:
    """Return the state of the newest unfinished Workload. A resize creates additional Workloads.

    Return None if all Workloads are finished.
    """
    states = [(Meta.read(body), body) for body in workloads if not _is_finished(body)]
    if not states:
        return None
    meta, body = max(states, key=lambda each: each[0].created)
    reserved = _read_condition(body, "QuotaReserved")
    since = read_time(reserved.get("lastTransitionTime"))
    message = _explain_wait(body, reserved)
    if read_mapping(body.get("spec")).get("active") is False:
        repair = f"set `spec.active` of Workload {meta.name} to true to queue it again"
        message = f"{message or 'the Workload is deactivated'}; {repair}"
    # If Kueue manages all jobs, it suspends a job without a queue name, but never admits it.
    return QueueState(meta.created if since is None else since, message if queue else _NO_QUEUE)


def describe_absence(rayjob: str, queue: str, *, is_missing: bool) -> str:
    """Explain why a suspended RayJob has no Workload."""
    if not queue:
        return _NO_QUEUE
    if is_missing:
        return f"LocalQueue {queue} does not exist"
    return f"Kueue has created no Workload for RayJob {rayjob}; see Kueue's log"


def _explain_wait(workload: Json, reserved: Json) -> str:
    """Return Kueue's message about a wait, or an empty string if there is no message."""
    message = reserved.get("message")
    text = " ".join(message.split()) if isinstance(message, str) else ""
    checks = read_list(read_mapping(workload.get("status")).get("admissionChecks"))
    pending = [each for each in map(read_mapping, checks) if each.get("state") != "Ready"]
    # Kueue evaluates admission checks only after it has reserved quota.
    if reserved.get("status") == "True" and pending:
        names = ", ".join(str(each.get("name", "")) for each in pending)
        return f"{text}; admission checks are pending: {names}"
    return text


def _is_finished(workload: Json) -> bool:
    return _read_condition(workload, "Finished").get("status") == "True"


def _read_condition(body: Json, type_: str) -> Json:
    conditions = map(read_mapping, read_list(read_mapping(body.get("status")).get("conditions")))
    return next((each for each in conditions if each.get("type") == type_), {})
