"""Plan of a pass as data: statuses to write, then actions in order, then events.

Statuses are written first, and a failed write stops the plan, so the intent of each action is
stored before the action is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from strandline_api.objects.attempt import AttemptStatus
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_api.status.usage.retry_counts import RetryCounts

Manifest = dict[str, Any]


class ObjectKind(StrEnum):
    """Base class for enums of object kinds, whose values are plural and group.

    Integrations define enums of their own kinds.
    """

    @property
    def root(self) -> str:
        """The path of the kind's API version."""
        return "/api/v1"


class Resource(ObjectKind):
    """Kinds of objects that the operator reads or writes on every cluster."""

    PIPELINE = "curationpipelines.strandline.dev"
    ATTEMPT = "curationattempts.strandline.dev"
    RAYJOB = "rayjobs.ray.io"
    RAYCLUSTER = "rayclusters.ray.io"
    POD = "pods"
    NODE = "nodes"
    CLAIM = "persistentvolumeclaims"
    CONFIG_MAP = "configmaps"
    SECRET = "secrets"  # noqa: S105 - a kind, not a secret
    JOB = "jobs.batch"
    NETWORK_POLICY = "networkpolicies.networking.k8s.io"
    DEPLOYMENT = "deployments.apps"
    DISRUPTION_BUDGET = "poddisruptionbudgets.policy"
    EVENT = "events"
    QUOTA = "resourcequotas"
    LIMIT_RANGE = "limitranges"


@dataclass(frozen=True, slots=True)
class Create:
    """Creates an object. If the operator's object exists, that counts as success.

    Attributes:
        is_strict: whether the server rejects unknown fields instead of dropping them.
        is_exact: whether an existing object with other data is a conflict.
        is_unread: whether an existing object is accepted without a check, because the operator may
            not read it.
    """

    resource: Resource
    manifest: Manifest
    is_strict: bool = False
    is_exact: bool = False
    is_unread: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes the object with this uid. If it does not exist, that counts as success.

    Attributes:
        grace: grace period in seconds, or None for the object's own.
    """

    resource: Resource
    name: str
    uid: str
    grace: int | None = None


@dataclass(frozen=True, slots=True)
class Grow:
    """Requests a larger size for the claim with this uid. A missing claim counts as success."""

    name: str
    uid: str
    size: str


@dataclass(frozen=True, slots=True)
class SetFinalizer:
    """Sets or removes Strandline's finalizer on the pipeline."""

    is_set: bool


Action = Create | Delete | Grow | SetFinalizer


@dataclass(frozen=True, slots=True)
class EventDraft:
    """An event to create: reason and message.

    Attributes:
        attempt: name of the attempt that the event is about, or None for the pipeline.
    """

    reason: str
    message: str
    is_warning: bool = False
    attempt: str | None = None


CounterName = Literal[
    "attempts",
    "retry_scheduled",
    "retry_exhausted",
    "retry_succeeded",
    "workers_lost",
    "work_lost_seconds",
    "status_refused",
]
HistogramName = Literal[
    "attempt_seconds", "retry_wait_seconds", "recovery_seconds", "attempt_delay_seconds"
]
MetricName = CounterName | HistogramName


@dataclass(frozen=True, slots=True)
class Count:
    """A metric update: name of the counter or histogram, cause (may be empty), and value."""

    name: MetricName
    cause: str = ""
    value: float = 1.0


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """The end of an attempt, to be reported to a lineage system.

    Attributes:
        namespace, name: namespace and name of the attempt's object, which may have been deleted.
        pipeline, pipeline_uid: name and uid of its pipeline.
        run: the pipeline's `runId` during the attempt.
        status: status with the final cause.
        retries: retries that its run has used, or None if they are not counted.
    """

    namespace: str
    name: str
    pipeline: str
    pipeline_uid: str
    run: str
    number: int
    status: AttemptStatus
    retries: RetryCounts | None = None


@dataclass(frozen=True, slots=True)
class Departure:
    """A Ray node that is about to be removed, to be announced to the driver.

    Attributes:
        attempt: uid of the attempt.
        head: address of the driver's pod.
        pod: uid of the terminating pod.
        mark: evidence of the removal. A driver is notified once per pod and mark.
        node: address of the pod, which identifies the node in Ray.
        seconds: estimated time until the removal.
        why: reason, as a sentence without its final period.
        port: port of the driver; 0 if its pod does not declare one.
    """

    attempt: str
    head: str
    pod: str
    mark: str
    node: str
    seconds: float
    why: str
    port: int = 0


@dataclass(frozen=True, slots=True)
class PassPlan:
    """Plan of a pass.

    Attributes:
        pipeline: status of the pipeline to write, or None if unchanged.
        attempts: statuses of attempts to write, by name.
        actions: actions in order, to execute after the status writes.
        events, counts: events and metrics about changes, to record after the actions.
        audit: log lines, one per new attempt.
        ends: ended attempts that the operator has to report to a lineage system.
        departures: notices for the driver of the running attempt, unless already sent.
        wake_at: latest time of the next pass, in seconds since the epoch, or None.
        is_at_rest: whether no pass is needed before `wake_at` unless the pipeline itself changes.
    """

    pipeline: PipelineStatus | None = None
    attempts: Mapping[str, AttemptStatus] = field(default_factory=dict)
    actions: tuple[Action, ...] = ()
    events: tuple[EventDraft, ...] = ()
    counts: tuple[Count, ...] = ()
    audit: tuple[str, ...] = ()
    ends: tuple[AttemptEnd, ...] = ()
    departures: tuple[Departure, ...] = ()
    wake_at: float | None = None
    is_at_rest: bool = False
