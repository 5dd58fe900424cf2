"""The fields of Kubernetes objects that decisions need, from the API server or a watch.

Reading never fails: missing or invalid fields are empty, and unknown values are kept. This module
must not depend on the origin of an object, or on how it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from strandline_api.outcome.spot_nodes import asks_for_spot
from strandline_api.spec.pod_paths import SUBMITTER_CONTAINER
from strandline_operator.model.pod_requests import PodRequest

Json = Mapping[str, Any]
_GRACE = 30.0  # Kubernetes' default grace period, in seconds
# Container reason if the kernel killed the container because memory ran out.
OOM_KILLED = "OOMKilled"
DRIVER_PORT = "strandline"  # name of the driver's container port
# Name of the submitter's container, which is in its own pod, or next to Ray in the head pod.
SUBMITTER = SUBMITTER_CONTAINER


@dataclass(frozen=True, slots=True)
class Meta:
    """Metadata of an object.

    Attributes:
        created: creation time in seconds since the epoch; 0 if unknown.
        is_deleting: whether it has a deletion timestamp.
        gone_by: the deletion timestamp, which for a pod is the end of its grace period, or None.
        owner: uid of the controlling object; empty if there is none.
    """

    name: str
    namespace: str
    uid: str
    generation: int = 0
    version: str = ""
    created: float = 0.0
    is_deleting: bool = False
    gone_by: float | None = None
    owner: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()

    @classmethod
    def read(cls, body: Json) -> Meta:
        """Return the metadata of an object."""
        meta = read_mapping(body.get("metadata"))
        owners = [read_mapping(owner) for owner in read_list(meta.get("ownerReferences"))]
        owner = next((owner for owner in owners if owner.get("controller")), {})
        generation = meta.get("generation")
        return cls(
            name=_text(meta.get("name")),
            namespace=_text(meta.get("namespace")),
            uid=_text(meta.get("uid")),
            generation=generation if isinstance(generation, int) else 0,
            version=_text(meta.get("resourceVersion")),
            created=read_time(meta.get("creationTimestamp")) or 0.0,
            is_deleting=bool(meta.get("deletionTimestamp")),
            gone_by=read_time(meta.get("deletionTimestamp")),
            owner=_text(owner.get("uid")),
            labels=read_mapping(meta.get("labels")),
            annotations=read_mapping(meta.get("annotations")),
            finalizers=tuple(map(str, read_list(meta.get("finalizers")))),
        )


@dataclass(frozen=True, slots=True)
class Termination:
    """End of a container: reason, exit code, last output, and time in seconds since the epoch."""

    reason: str
    exit_code: int
    message: str
    time: float | None


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod.

    Attributes:
        waiting, waiting_message: reason and message of a wait; empty if it is not waiting.
        ends: current and last state, if they are terminated states.
        started: start time in seconds since the epoch, or None if not running or unknown.
        is_init: whether it is an init container.
    """

    name: str
    waiting: str
    waiting_message: str
    is_running: bool
    ends: tuple[Termination, ...]
    started: float | None = None
    is_init: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod.

    Attributes:
        phase: Kubernetes phase, such as `Running`.
        reason, message: reason and message of the whole pod, such as `Evicted`.
        disruption: reason of the condition DisruptionTarget, such as `PreemptionByScheduler`.
        disrupted: start of that condition in seconds since the epoch, or None if it is not true or
            has no time.
        unschedulable: reason why it can't be scheduled; empty if it can.
        is_gone: whether it was deleted, so that this is its last state.
        is_ready: whether its condition Ready is true.
        unready: message of the condition Ready if it is false.
        asks_spot: whether its spec requests spot capacity.
        grace: grace period in seconds.
        is_revived: whether it had ended and its node restarted it. The reason of the earlier end is
            then in `reason`, `message`, and `disruption`.
        request: its requirements for a node.
        claims: names of the claims that it mounts.
        driver_port: port of its driver; 0 if it declares none.
    """

    meta: Meta
    phase: str
    reason: str
    message: str
    node: str
    ip: str
    containers: tuple[Container, ...]
    disruption: str
    disruption_message: str
    unschedulable: str
    is_gone: bool = False
    is_ready: bool = False
    unready: str = ""
    asks_spot: bool = False
    grace: float = _GRACE
    is_revived: bool = False
    request: PodRequest = field(default_factory=PodRequest)
    driver_port: int = 0
    disrupted: float | None = None
    claims: tuple[str, ...] = ()

    @property
    def submitter_end(self) -> Termination | None:
        """Return the end of the container that submits the driver and follows its log, or None."""
        ends = (
            container
            for container in self.containers
            if container.name == SUBMITTER and not container.is_running
        )
        return next((container.ends[0] for container in ends if container.ends), None)

    @classmethod
    def read(cls, body: Json, *, is_gone: bool = False) -> Pod:
        """Return a pod from its object."""
        status, spec = read_mapping(body.get("status")), read_mapping(body.get("spec"))
        conditions = {
            _text(condition.get("type")): condition
            for condition in map(read_mapping, read_list(status.get("conditions")))
        }
        target = conditions.get("DisruptionTarget", {})
        placed, ready = conditions.get("PodScheduled", {}), conditions.get("Ready", {})
        kinds = ("initContainerStatuses", "containerStatuses")
        return cls(
            meta=Meta.read(body),
            phase=_text(status.get("phase")),
            reason=_text(status.get("reason")),
            message=_text(status.get("message")),
            node=_text(spec.get("nodeName")),
            ip=_text(status.get("podIP")),
            containers=tuple(
                _read_container(read_mapping(container), is_init=kind == kinds[0])
                for kind in kinds
                for container in read_list(status.get(kind))
            ),
            disruption=_text(target.get("reason")) if target.get("status") == "True" else "",
            disruption_message=_text(target.get("message")),
            unschedulable=_text(placed.get("message")) if placed.get("status") == "False" else "",
            is_gone=is_gone,
            is_ready=ready.get("status") == "True",
            unready=_text(ready.get("message")) if ready.get("status") == "False" else "",
            asks_spot=asks_for_spot(spec),
            grace=_read_seconds(spec.get("terminationGracePeriodSeconds"), _GRACE),
            request=PodRequest.read(spec),
            driver_port=_read_driver_port(spec),
            disrupted=(
                read_time(target.get("lastTransitionTime"))
                if target.get("status") == "True"
                else None
            ),
            claims=tuple(list_mounted(spec, _text(read_mapping(body.get("metadata")).get("name")))),
        )

    def follow(self, before: Pod | None) -> Pod:
        """Return this pod, with the reason of an earlier end if an earlier state shows one.

        A restarted node reports its pods as new, without their earlier states.
        """
        if before is None or before.meta.uid != self.meta.uid or self.phase == "Failed":
            return self
        if not (before.is_revived or before.phase == "Failed"):
            return self
        return replace(
            self,
            reason=self.reason or before.reason,
            message=self.message or before.message,
            disruption=self.disruption or before.disruption,
            disruption_message=self.disruption_message or before.disruption_message,
            disrupted=self.disrupted or before.disrupted,
            is_revived=True,
        )


@dataclass(frozen=True, slots=True)
class RayJob:
    """A RayJob. Values are KubeRay's, and newer versions may add values.

    Attributes:
        deployment: `jobDeploymentStatus`.
        job: `jobStatus`.
        started: Ray's start time of the driver in seconds since the epoch, or None if Ray has not
            reported it. A change means that the driver was started again.
        ended: Ray's end time of the driver, or else the end time of the RayJob, in seconds since
            the epoch, or None if neither has ended.
        managed_by: controller of the RayJob; empty for KubeRay.
        groups: names of the worker groups.
        has_submitter: whether a separate pod submits the driver.
    """

    meta: Meta
    deployment: str
    job: str
    reason: str
    message: str
    cluster: str
    started: float | None
    is_suspended: bool
    managed_by: str = ""
    groups: tuple[str, ...] = ()
    has_submitter: bool = False
    ended: float | None = None

    @classmethod
    def read(cls, body: Json) -> RayJob:
        """Return a RayJob from its object."""
        status, spec = read_mapping(body.get("status")), read_mapping(body.get("spec"))
        info = read_mapping(status.get("rayJobInfo"))
        groups = read_list(read_mapping(spec.get("rayClusterSpec")).get("workerGroupSpecs"))
        return cls(
            meta=Meta.read(body),
            deployment=_text(status.get("jobDeploymentStatus")),
            job=_text(status.get("jobStatus")),
            reason=_text(status.get("reason")),
            message=_text(status.get("message")),
            cluster=_text(status.get("rayClusterName")),
            started=read_time(info.get("startTime")),
            is_suspended=spec.get("suspend") is True,
            managed_by=_text(spec.get("managedBy")),
            groups=tuple(_text(read_mapping(group).get("groupName")) for group in groups),
            has_submitter=spec.get("submissionMode") == "K8sJobMode",
            ended=read_time(info.get("endTime")) or read_time(status.get("endTime")),
        )


@dataclass(frozen=True, slots=True)
class RayClusterState:
    """A RayCluster.

    Attributes:
        failure: reason of its condition ReplicaFailure, such as `FailedCreateHeadPod`.
        failure_message: KubeRay's message in that condition, including the API server's message.
        failed: start of that condition in seconds since the epoch, or None if it is not true.
    """

    meta: Meta
    failure: str = ""
    failure_message: str = ""
    failed: float | None = None

    @classmethod
    def read(cls, body: Json) -> RayClusterState:
        """Return a RayCluster from its object."""
        conditions = map(
            read_mapping, read_list(read_mapping(body.get("status")).get("conditions"))
        )
        failures = (
            condition for condition in conditions if condition.get("type") == "ReplicaFailure"
        )
        failure_condition = next(
            (failure for failure in failures if failure.get("status") == "True"), {}
        )
        return cls(
            meta=Meta.read(body),
            failure=_text(failure_condition.get("reason")),
            failure_message=_text(failure_condition.get("message")),
            failed=read_time(failure_condition.get("lastTransitionTime")),
        )


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim.

    Attributes:
        phase: `Pending`, `Bound` or `Lost`.
        modes: access modes.
        requested, capacity: requested and actual size, such as `10Gi`; empty if unknown.
        resizing: message about a resize in progress; empty if there is none.
    """

    meta: Meta
    phase: str
    modes: tuple[str, ...]
    requested: str = ""
    capacity: str = ""
    resizing: str = ""

    @classmethod
    def read(cls, body: Json) -> VolumeClaim:
        """Return a claim from its object."""
        status, spec = read_mapping(body.get("status")), read_mapping(body.get("spec"))
        requests = read_mapping(read_mapping(spec.get("resources")).get("requests"))
        conditions = map(read_mapping, read_list(status.get("conditions")))
        lasting = (each for each in conditions if each.get("status") == "True")
        messages = (_text(each.get("message")) or _text(each.get("type")) for each in lasting)
        return cls(
            Meta.read(body),
            _text(status.get("phase")),
            tuple(map(str, read_list(spec.get("accessModes")))),
            str(requests.get("storage") or ""),
            str(read_mapping(status.get("capacity")).get("storage") or ""),
            next(messages, ""),
        )


def read_time(text: object) -> float | None:
    """Return a Kubernetes timestamp in seconds since the epoch, or None if it is invalid."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _read_container(status: Json, *, is_init: bool) -> Container:
    state = read_mapping(status.get("state"))
    waiting, running = read_mapping(state.get("waiting")), read_mapping(state.get("running"))
    states = (state, read_mapping(status.get("lastState")))
    return Container(
        name=_text(status.get("name")),
        waiting=_text(waiting.get("reason")),
        waiting_message=_text(waiting.get("message")),
        is_running=bool(state.get("running")),
        ends=tuple(_read_ends(states)),
        started=read_time(running.get("startedAt")),
        is_init=is_init,
    )


def _read_ends(states: tuple[Json, ...]) -> Iterator[Termination]:
    for state in states:
        end = read_mapping(state.get("terminated"))
        if end:
            code = end.get("exitCode")
            yield Termination(
                reason=_text(end.get("reason")),
                exit_code=code if isinstance(code, int) else -1,
                message=_text(end.get("message")),
                time=read_time(end.get("finishedAt")),
            )


def read_mapping(value: object) -> dict[str, Any]:
    """Return a copy of a mapping, or an empty mapping for other values."""
    return dict(value) if isinstance(value, Mapping) else {}


def read_list(value: object) -> list[Any]:
    """Return a list unchanged, or an empty list for other values."""
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _read_driver_port(spec: Json) -> int:
    ports = (
        read_mapping(port)
        for container in read_list(spec.get("containers"))
        for port in read_list(read_mapping(container).get("ports"))
    )
    ports_of_name = (port.get("containerPort") for port in ports if port.get("name") == DRIVER_PORT)
    return next((port for port in ports_of_name if isinstance(port, int)), 0)


def list_mounted(spec: Json, pod: str = "") -> Iterator[str]:
    """Yield the names of the claims in the spec of a pod or a pod template.

    Args:
        pod: name of the pod, from which Kubernetes derives the names of ephemeral claims.
    """
    for volume in map(read_mapping, read_list(spec.get("volumes"))):
        if "persistentVolumeClaim" in volume:
            yield _text(read_mapping(volume["persistentVolumeClaim"]).get("claimName"))
        elif "ephemeral" in volume:
            yield f"{pod}-{_text(volume.get('name'))}"


def _read_seconds(value: object, default: float) -> float:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if is_number and isinstance(value, int) and value >= 0 else default
