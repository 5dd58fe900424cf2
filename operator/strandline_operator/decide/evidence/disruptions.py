"""Determines why a pod lost its node, from the pod and from the marks of its node.

A pod reports how it was removed: eviction, shutdown, a taint, or garbage collection. Only the node
shows who removed the pod. Both together determine a `Disruption` of the API contract. This module
must not depend on what follows from a disruption, or on when nodes are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from strandline_api.outcome.disruptions import Disruption
from strandline_api.spec.pod_paths import AUTOSCALER_CONTAINER
from strandline_operator.decide.evidence.taker_marks import (
    CANDIDATE,
    CONDITIONS,
    DELETION,
    DIED,
    DRAINED,
    EC2_NOTICE,
    GONE,
    SHUTDOWN,
    SUMMARY,
    TAINTS,
    TakerMark,
)
from strandline_operator.model.nodes.marks import NodeMarks
from strandline_operator.model.notices import Notice
from strandline_operator.model.objects import OOM_KILLED, Pod

_OVER_LIMIT = re.compile(
    r"ephemeral local storage usage exceeds|exceeded its local ephemeral storage limit"
    r"|Usage of EmptyDir volume",
    re.IGNORECASE,
)
_SHORTAGE = re.compile(r"low on resource: \[?([\w./-]+)|had condition: \[?(\w+)", re.IGNORECASE)
_SHUTTING = re.compile(r"node shutdown|node is shutting", re.IGNORECASE)
_CRITICAL = re.compile(r"preempted by kubelet|to admit critical pod", re.IGNORECASE)
_OUT_OF_SERVICE = re.compile(r"out[- ]of[- ]service", re.IGNORECASE)
# Messages of containerd, CRI-O, and Docker if a container's name is still in use.
_RESERVED = re.compile(
    r"failed to reserve (?:container|sandbox) name|is reserved for|error reserving \w+ name"
    r"|name is reserved|container name \S+ is already in use",
    re.IGNORECASE,
)
_RESOURCES = {
    "memory": "memory",
    "memorypressure": "memory",
    "ephemeral-storage": "disk",
    "inodes": "disk",
    "diskpressure": "disk",
    "pids": "process ids",
    "pidpressure": "process ids",
}
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
SHUTDOWN_REASONS = frozenset({"Terminated", "NodeShutdown", "Shutdown"})
# Reasons with which a kubelet rejects pods, in addition to `OutOf` with the name of a resource.
REJECTIONS = frozenset(
    {
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "TaintToleration",
        "UnexpectedAdmissionError",
        "TopologyAffinityError",
        "SMTAlignmentError",
        "UnsupportedPodLevelResources",
        "PodLevelResourcesNotAdmitted",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "InvalidNodeInfo",
        "InsufficientResourceError",
    }
)
_OUT_OF = "OutOf"
_BY_API = "EvictionByEvictionAPI"
_BY_SCHEDULER = "Preemption"  # prefix of the current and the former condition
_BY_TAINT, _BY_GC, _BY_KUBELET = (
    "DeletionByTaintManager",
    "DeletionByPodGC",
    "TerminationByKubelet",
)
# Reason that containerd and the kubelet write for a container that was lost in a restart.
LOST_CONTAINER = "ContainerStatusUnknown"
_LOST_BY_RUNTIME, _LOST_CODE = "Unknown", 255
_AGAIN = "Failed, then again Pending"
# Marks of a missing or unresponsive node, which don't prove that a program or person removed it.
_ABSENCES = frozenset({GONE.name, DELETION.name, DIED.name})
# Patterns of Karpenter's reasons, in events about an evicted pod or a terminated node.
_KARPENTER_WHY = (
    (re.compile(r"underutilized|empty|consolidat", re.IGNORECASE), Disruption.NODE_CONSOLIDATED),
    (re.compile(r"drift", re.IGNORECASE), Disruption.NODE_DRIFTED),
    (re.compile(r"expired|expiration", re.IGNORECASE), Disruption.NODE_EXPIRED),
    (re.compile(r"spot ?interrupt", re.IGNORECASE), Disruption.SPOT_RECLAIMED),
)
_KARPENTER_EVENTS = frozenset({"Evicted", "DisruptionTerminating", "Disrupted", "SpotInterrupted"})
_OF_KARPENTER = re.compile(
    r"^(Evicted pod: |Disrupting |Spot interruption|Pod was evicted)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class PodDisruption:
    """Disruption of a pod.

    Attributes:
        kind: the kind of disruption, from the API contract.
        node: name of the pod's node; empty if it had none.
        what: details that complete the kind's sentence.
        words: the pod's own message; empty if it has none.
        mark: the taint, condition, or reason that proves the disruption.
        seconds: seconds from the mark to the node's end, or None if the pod gets its full grace
            period.
        is_spot: whether the node is known to be a spot node, regardless of the kind.
    """

    kind: Disruption
    node: str
    what: str = ""
    words: str = ""
    mark: str = ""
    seconds: float | None = None
    is_spot: bool = False

    @property
    def sentence(self) -> str:
        """The kind's sentence about this node, followed by the pod's own message."""
        outcome = self.kind.describe(self.node, self.what)
        words = self.words.strip().rstrip(".")
        return f"{outcome} ({words})" if words and words != self.what else outcome


@dataclass(frozen=True, slots=True)
class _Case:
    """A pod with its node's marks, and the events about both."""

    pod: Pod
    marks: NodeMarks
    notices: tuple[Notice, ...]

    @property
    def text(self) -> str:
        return f"{self.pod.disruption_message}\n{self.pod.message}"

    @property
    def words(self) -> str:
        return self.pod.disruption_message or self.pod.message

    @property
    def is_spot(self) -> bool:
        """Return True for a spot node. For an unknown node, use the pod's node selection."""
        return self.marks.is_spot or (not self.marks.is_known and self.pod.asks_spot)

    def take(self, kind: Disruption, mark: str = "", what: str = "") -> PodDisruption:
        name = mark or self.pod.disruption or self.pod.reason
        return PodDisruption(kind, self.pod.node, what, self.words, name)


def find_taking(
    pod: Pod, marks: NodeMarks | None = None, notices: Iterable[Notice] = ()
) -> PodDisruption | None:
    """Return the disruption of a pod, read from the pod and its node, if any.

    If a terminating pod has no message of its own, the marks on its node explain the termination.
    """
    case = _read_case(pod, marks, notices)
    taking = next(filter(None, (reader(case) for reader in _READERS)), None)
    if taking is None and _is_going(pod):
        taking = _name_taker(case) or _find_death(case)
        # If the node merely disappeared, an earlier out-of-memory kill explains the pod's end
        # better.
        if taking is not None and taking.mark in _ABSENCES and _was_killed_for_memory(pod):
            taking = None
    return None if taking is None else replace(taking, is_spot=case.is_spot)


def _was_killed_for_memory(pod: Pod) -> bool:
    return any(end.reason == OOM_KILLED for container in pod.containers for end in container.ends)


def find_mark(
    pod: Pod, marks: NodeMarks | None, notices: Iterable[Notice] = ()
) -> PodDisruption | None:
    """Return the disruption that the node's marks name, regardless of the pod's state, if any."""
    case = _read_case(pod, marks, notices)
    taker = None if marks is None else _name_taker(case)
    return None if taker is None else replace(taker, is_spot=case.is_spot)


def is_unexplained(marks: NodeMarks | None) -> bool:
    """Return True if Karpenter is disrupting a node, which needs an event to explain the reason."""
    taints = () if marks is None else marks.taints
    karpenters = {mark.name for mark in TAINTS if mark.kind is Disruption.NODE_DISRUPTED}
    return any(name in karpenters for name, _ in taints)


def is_reserved(words: str) -> bool:
    """Return True if a container can't be created because its name is still in use."""
    return _RESERVED.search(words) is not None


def _read_case(pod: Pod, marks: NodeMarks | None, notices: Iterable[Notice]) -> _Case:
    # Exclude an empty uid, which would match every event without a uid.
    about = {pod.meta.uid} - {""}
    mine = tuple(
        notice
        for notice in notices
        if notice.uid in about or (notice.kind == "Node" and notice.name == pod.node)
    )
    return _Case(pod, marks or NodeMarks(pod.node, is_known=False), mine)


def _is_going(pod: Pod) -> bool:
    """Return True if a pod is gone, is being deleted, or has an ended container."""
    # These states of the pod show the loss, regardless of the node's state.
    if pod.is_gone or pod.meta.is_deleting or pod.phase == "Failed":
        return True
    # Ignore init containers and the autoscaler, which may end while the pod continues.
    return any(
        container.ends and not container.is_running
        for container in pod.containers
        if not container.is_init and container.name != AUTOSCALER_CONTAINER
    )


def _find_over_limit(case: _Case) -> PodDisruption | None:
    is_over = _OVER_LIMIT.search(case.text)
    return case.take(Disruption.POD_OVER_LIMIT) if is_over else None


def _find_shortage(case: _Case) -> PodDisruption | None:
    match = _SHORTAGE.search(case.text)
    if match is None:
        return None
    word = (match[1] or match[2] or "").lower().rstrip(".")
    return case.take(Disruption.NODE_SHORTAGE, what=_RESOURCES.get(word, word))


def _find_preemption(case: _Case) -> PodDisruption | None:
    pod = case.pod
    is_preempted = pod.disruption.startswith(_BY_SCHEDULER) or pod.reason == "Preempting"
    if is_preempted or _CRITICAL.search(case.text):
        return case.take(Disruption.POD_PREEMPTED)
    return None


def _find_shutdown(case: _Case) -> PodDisruption | None:
    if case.pod.reason not in SHUTDOWN_REASONS and not _SHUTTING.search(case.text):
        return None
    # Every removal involves a shutdown, so a more specific mark is a better explanation.
    return _with_words(case, _name_taker(case) or _apply(case, SHUTDOWN))


def _find_rejection(case: _Case) -> PodDisruption | None:
    reason = case.pod.reason
    # The kubelet appends the name of the missing resource, as in `OutOfcpu`.
    if reason not in REJECTIONS and not (reason.startswith(_OUT_OF) and reason != _OUT_OF):
        return None
    return case.take(Disruption.POD_REJECTED, what=reason)


def _find_eviction(case: _Case) -> PodDisruption | None:
    """Return the origin of an eviction, according to the node's marks or its cordon."""
    if case.pod.disruption != _BY_API:
        return None
    taints = {name for name, _ in case.marks.taints}
    # A mark that names the origin is more precise than the candidate taint or a cordon.
    if (taker := _name_taker(case)) is not None:
        return _with_words(case, taker)
    # The cluster autoscaler taints candidates before it evicts their pods.
    if CANDIDATE.name in taints:
        return _with_words(case, _apply(case, CANDIDATE))
    # A drain cordons its node first; an eviction alone does not.
    if case.marks.is_cordoned:
        return _with_words(case, _apply(case, DRAINED))
    return case.take(Disruption.POD_EVICTED)


def _find_taint(case: _Case) -> PodDisruption | None:
    if case.pod.disruption != _BY_TAINT:
        return None
    taking = _name_taker(case) or _find_death(case)
    return _with_words(case, taking) if taking else case.take(Disruption.NODE_TAINTED)


def _find_collection(case: _Case) -> PodDisruption | None:
    """Return why a pod was garbage-collected: its node is gone or out of service."""
    if case.pod.disruption != _BY_GC:
        return None
    # A person declared the node out of service, so the node may still exist.
    if _OUT_OF_SERVICE.search(case.text):
        return case.take(Disruption.NODE_OUT_OF_SERVICE)
    return _with_words(case, _name_taker(case) or _apply(case, GONE))


def _find_kubelets_eviction(case: _Case) -> PodDisruption | None:
    """Return the reason why a kubelet evicted a pod, if the kubelet's message is unknown."""
    pod = case.pod
    if pod.reason != "Evicted" and pod.disruption != _BY_KUBELET:
        return None
    pressure = next((name for name, _ in case.marks.conditions if name in PRESSURES), None)
    # The message is unknown, so use the node's pressure condition as the reason.
    if pressure is not None:
        return case.take(Disruption.NODE_SHORTAGE, pressure, _RESOURCES[pressure.lower()])
    # Without pressure, rely on the node's marks.
    taker = _name_taker(case)
    return _with_words(case, taker) if taker else case.take(Disruption.POD_EVICTED)


def _find_other(case: _Case) -> PodDisruption | None:
    """Return a disruption of an unknown kind, or one that an old API server reported."""
    # API servers without disruption conditions report an unresponsive node as `NodeLost`.
    if case.pod.reason == "NodeLost":
        return _with_words(case, _name_taker(case) or _apply(case, DIED))
    if not case.pod.disruption:
        return None
    taker = _name_taker(case)
    return _with_words(case, taker) if taker else case.take(Disruption.POD_EVICTED)


def _find_lost_containers(case: _Case) -> PodDisruption | None:
    """Return the disruption of a pod whose node restarted and lost its containers."""
    pod = case.pod
    # A failed pod never runs again, except after its node restarted and lost the pod's state.
    if pod.is_revived:
        return _name_taker(case) or case.take(
            Disruption.NODE_RESTARTED, "Failed, then again Pending"
        )
    # The kubelet writes the same status for a deleted pod that it has not inspected yet.
    if pod.meta.is_deleting or pod.is_gone:
        return None
    for container in pod.containers:
        for end in container.ends:
            # containerd reports a container that was lost in a restart as `Unknown` with code 255.
            is_by_runtime = (end.reason, end.exit_code) == (_LOST_BY_RUNTIME, _LOST_CODE)
            if end.reason == LOST_CONTAINER or is_by_runtime:
                return _name_taker(case) or PodDisruption(
                    Disruption.NODE_RESTARTED, pod.node, "", end.message, end.reason
                )
    return None


# Specific reasons from the pod itself come first, followed by removals that have several possible
# origins.
_READERS: tuple[Callable[[_Case], PodDisruption | None], ...] = (
    _find_over_limit,
    _find_shortage,
    _find_preemption,
    _find_shutdown,
    _find_rejection,
    _find_eviction,
    _find_taint,
    _find_collection,
    _find_kubelets_eviction,
    _find_other,
    _find_lost_containers,
)


def _name_taker(case: _Case) -> PodDisruption | None:
    """Return the disruption that the node's marks name, or None if no mark is known."""
    marks = case.marks
    taints = dict(marks.taints)
    for mark in TAINTS:
        if mark.name in taints and mark.value in {"", taints[mark.name]}:
            return _apply(case, mark)
    reasons = {reason for name, reason in marks.conditions if name == SUMMARY}
    conditions = {name for name, _ in marks.conditions} | reasons
    for mark in CONDITIONS:
        if mark.name in conditions:
            return _apply(case, mark)
    # Any removal may involve a shutdown, so check this only after the more specific marks.
    if marks.is_shutting_down:
        return _apply(case, SHUTDOWN)
    if marks.is_gone:
        return _apply(case, GONE)
    return _apply(case, DELETION) if marks.is_deleting else None


def _find_death(case: _Case) -> PodDisruption | None:
    """Return the disruption of a pod on a dead node, if any.

    A node that responds but is not ready is not dead.
    """
    taints = {name for name, _ in case.marks.taints}
    # An unready node counts as dead only if its taint has evicted the pod.
    is_tainted = case.pod.disruption == _BY_TAINT and (
        case.marks.is_unready or bool(taints & {_NOT_READY, _UNREACHABLE})
    )
    return _apply(case, DIED) if case.marks.is_silent or is_tainted else None


_NOT_READY, _UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def _apply(case: _Case, mark: TakerMark) -> PodDisruption:
    kind = mark.spot_kind if case.is_spot and mark.spot_kind is not None else mark.kind
    seconds = mark.seconds
    if kind is Disruption.NODE_DISRUPTED:
        kind = _find_karpenters_reason(case) or kind
        # Karpenter forwards EC2's spot notice, and EC2 does not wait for a drain.
        seconds = EC2_NOTICE if kind is Disruption.SPOT_RECLAIMED else None
    return PodDisruption(kind, case.pod.node, mark.what, "", mark.name, seconds)


def _find_karpenters_reason(case: _Case) -> Disruption | None:
    """Return Karpenter's reason from its newest event, because its taint contains no reason."""
    events = [
        notice
        for notice in case.notices
        if notice.reason in _KARPENTER_EVENTS
        and (_OF_KARPENTER.search(notice.message) or notice.reason != "Evicted")
    ]
    for notice in sorted(events, key=lambda each: -each.time):
        for pattern, kind in _KARPENTER_WHY:
            if pattern.search(f"{notice.reason} {notice.message}"):
                return kind
    return None


def _with_words(case: _Case, taking: PodDisruption) -> PodDisruption:
    return replace(taking, words=case.words)
