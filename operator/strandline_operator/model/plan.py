"""What one pass is going to do, as data: statuses to write, then actions in order, then events.

Statuses are written first, and nothing is done where one can't be written, so an action never
happens before the intent behind it is durable.
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
    """A kind of objects: plural, then group. Integrations have enums of their own kinds."""

    @property
    def root(self) -> str:
        """The path of the kind's API version."""
        return "/api/v1"


class Resource(ObjectKind):
    """The kinds of objects that the operator reads or writes on every cluster."""

    PIPELINE = "curationpipelines.strandline.dev"
    ATTEMPT = "curationattempts.strandline.dev"
    RAYJOB = "rayjobs.ray.io"
    RAYCLUSTER = "rayclusters.ray.io"
    POD = "pods"
    NODE = "nodes"
    CLAIM = "persistentvolumeclaims"
    CONFIG_MAP = "configmaps"
    SECRET = "secrets"  # noqa: S105 - a kind
    JOB = "jobs.batch"
    NETWORK_POLICY = "networkpolicies.networking.k8s.io"
    DEPLOYMENT = "deployments.apps"
    DISRUPTION_BUDGET = "poddisruptionbudgets.policy"
    EVENT = "events"
    QUOTA = "resourcequotas"
    LIMIT_RANGE = "limitranges"


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object; that it exists and is ours is success.

    Attributes:
        is_strict: a field that the server does not know is refused, instead of left out.
        is_exact: one that exists and has other data is not this one.
        is_unread: one that exists counts as ours, since the operator may not read it.
    """

    resource: Resource
    manifest: Manifest
    is_strict: bool = False
    is_exact: bool = False
    is_unread: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object of this very uid; that it is gone is success.

    Attributes:
        grace: seconds for its processes to end; None: the object's own.
    """

    resource: Resource
    name: str
    uid: str
    grace: int | None = None


@dataclass(frozen=True, slots=True)
class Grow:
    """Ask for more room on the claim of this very uid; that it is gone is success."""

    name: str
    uid: str
    size: str


@dataclass(frozen=True, slots=True)
class SetFinalizer:
    """Put our finalizer on the pipeline, or take it off."""

    is_set: bool


Action = Create | Delete | Grow | SetFinalizer


@dataclass(frozen=True, slots=True)
class EventDraft:
    """Something that happened, for `kubectl describe`: reason and sentence.

    Attributes:
        attempt: name of the attempt that it is about; None: the pipeline.
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
    """A metric's step: name of a counter or histogram of ours, a cause or nothing, a value."""

    name: MetricName
    cause: str = ""
    value: float = 1.0


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """An attempt that is over, for a lineage system.

    Attributes:
        namespace, name: of its object, which may be gone.
        pipeline, pipeline_uid: name and uid of its pipeline.
        run: the pipeline's `runId` at its time.
        status: with its final cause.
        retries: what its run has used up; None where that is not counted.
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
    """A node of Ray's that is about to go, for the driver of a running attempt.

    Attributes:
        attempt: uid of the attempt.
        head: address of the driver's pod.
        pod: uid of the pod that goes.
        mark: by what that is known; a driver is told once of each.
        node: the pod's address, by which Ray knows it.
        seconds: until it goes, as far as is known.
        why: a sentence without an end.
        port: where that driver answers; 0 where its pod does not name it.
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
    """A pass's result.

    Attributes:
        pipeline: the status to write; None: nothing changed.
        attempts: statuses to write, by name of the attempt.
        actions: in this order, after the statuses.
        events, counts: after that; all speak of transitions.
        audit: lines for the log, one for each attempt that is dispatched.
        ends: attempts that are over, whose reports are pending and have no other reporter.
        departures: what the driver of the running attempt is to be told, if it was not before.
        wake_at: when to look again even if nothing happens, in seconds since the epoch.
        is_at_rest: until then nothing needs a look, unless the pipeline itself changes.
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
