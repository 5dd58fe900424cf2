"""Immutable inputs of deciders: a whole pass, and an attempt with its objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from strandline_api.names import ATTEMPT_LABEL, ROLE_LABEL, name_rayjob
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.outcome.disruptions import Disruption
from strandline_api.outcome.evidence import Evidence
from strandline_api.status.pipeline_status import SpotGroup
from strandline_operator.decide.clock_steps import settle_attempt
from strandline_operator.decide.evidence.disruptions import PodDisruption, find_mark
from strandline_operator.decide.evidence.pods import find_pod_evidence
from strandline_operator.model.limits import Limits
from strandline_operator.model.nodes.capacity import NodeSize
from strandline_operator.model.nodes.marks import NodeMarks, NodeState, NodeView
from strandline_operator.model.notices import Notice, QueueState
from strandline_operator.model.objects import Meta, Pod, RayClusterState, RayJob, VolumeClaim
from strandline_operator.model.view import AttemptObject, DriverView, View
from strandline_operator.render.order import Role

Nodes = Mapping[str, NodeView]
Marks = Mapping[str, NodeMarks]
_LOSSES = {
    NodeState.GONE: Disruption.NODE_GONE,
    NodeState.OUT_OF_SERVICE: Disruption.NODE_OUT_OF_SERVICE,
    NodeState.SILENT: Disruption.NODE_DIED,
}
_WITHHELD = frozenset({NodeState.SILENT, NodeState.UNREAD})
Entry = TypeVar("Entry")
Result = TypeVar("Result")


def find_first(finders: Iterable[Callable[[Entry], Result | None]], entry: Entry) -> Result | None:
    """Call the functions in order, and return the first result that is not None."""
    return next((result for find in finders if (result := find(entry)) is not None), None)


def part_pods(view: View) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
    """Separate pods that may still run from the last states of deleted or lost pods."""
    lost_pods = tuple(pod for pod in view.pods if _is_lost(pod, view.nodes))
    living = tuple(pod for pod in view.pods if pod not in lost_pods)
    return living, (*view.gone_pods, *(replace(pod, is_gone=True) for pod in lost_pods))


def find_lost_node(pod: Pod, nodes: Nodes, marks: Marks) -> Evidence | None:
    """Return evidence that a terminating pod's node is lost or unresponsive, if any."""
    node = nodes.get(pod.node)
    # If the pod is not being deleted, it may recover together with its node.
    if node is None or not pod.meta.is_deleting:
        return None
    kind = _LOSSES.get(node.state)
    # A node that responds has not lost any pods.
    if kind is None:
        return None
    node_marks = marks.get(pod.meta.uid, NodeMarks(pod.node, is_known=False))
    # The node's state was read from the server, and may be newer than its marks.
    is_gone = node.state is NodeState.GONE
    taker = find_mark(pod, replace(node_marks, is_gone=True) if is_gone else node_marks)
    kind = kind if taker is None else taker.kind
    role = pod.meta.labels.get(ROLE_LABEL, "pod")
    message = f"node {pod.node} of {role} pod {pod.meta.name} {node.state}"
    # A specific disruption is more informative than the state of the node.
    if taker is not None and kind is not Disruption.NODE_GONE:
        message = f"{kind.describe(pod.node, taker.what)}: {message}"
    details = {"pod": pod.meta.name, "podUid": pod.meta.uid, "node": pod.node}
    details |= {"role": role, "reason": kind.value}
    return Evidence(kind.cause, message, "node", details)


def describe_wait(pods: Iterable[Pod], nodes: Nodes) -> str:
    """Describe the wait for terminating pods on a node that does not respond.

    Return an empty string if there are no such pods.
    """
    withheld = [pod for pod in pods if pod.meta.is_deleting and _is_withheld(pod, nodes)]
    # Pods on a responding node terminate on their own.
    if not withheld:
        return ""
    name = withheld[0].node
    return f"waits for pods of node {name}, which {nodes[name].state}"


def _is_lost(pod: Pod, nodes: Nodes) -> bool:
    node = nodes.get(pod.node)
    return node is not None and node.state.is_lost and pod.meta.is_deleting


def _is_withheld(pod: Pod, nodes: Nodes) -> bool:
    node = nodes.get(pod.node)
    return node is not None and node.state in _WITHHELD


# KubeRay's states of a RayJob that a queue or a user has suspended.
SUSPENDED = frozenset({"Suspending", "Suspended"})


@dataclass(frozen=True)
class Pass:
    """Inputs of one pass over a pipeline.

    Attributes:
        spec: the pipeline's spec, or the defaults if it is unreadable.
        now: seconds since the epoch.
        drawn: a random number from [0, 1), for random jitter.
    """

    view: View
    spec: PipelineSpec
    limits: Limits
    now: float
    drawn: float

    @property
    def newest(self) -> AttemptObject | None:
        """The attempt with the highest number, or None if there are no attempts."""
        return self.view.attempts[-1] if self.view.attempts else None

    @cached_property
    def scene(self) -> Scene | None:
        """The scene of the newest attempt, or None if there is no attempt or it is frozen."""
        newest = self.newest
        return None if newest is None or newest.status.is_frozen else Scene.from_facts(self, newest)


@dataclass(frozen=True, slots=True)
class Scene:
    """An attempt and its objects during a pass.

    Attributes:
        attempt: the attempt as it was read.
        status: the attempt's status, including observations of this pass.
        spec: the pipeline's spec.
        rayjob: the attempt's own RayJob, or None if it does not exist.
        others: names of remaining RayJobs, clusters, and pods of other attempts.
        gone_pods: last states of pods that were deleted, or lost with their nodes.
        has_kuberay: whether the API server serves KubeRay's kinds, so that a missing RayJob was
            deleted.
        marks: marks of the pods' nodes, by pod uid.
        former_node: node of the previous attempt's head; empty if unknown.
        notices: events about any of these objects, unordered.
        sizes: sizes of all nodes, or None if they were not read.
        spot: usage of spot nodes in the run so far.
        claims: existing claims of the pipeline's storage.
        queue: a scheduler's report on the RayJob, or None if the RayJob is not waiting or no report
            exists.
        is_launched: whether this pass creates the RayJob.
    """

    attempt: AttemptObject
    status: AttemptStatus
    spec: PipelineSpec
    limits: Limits
    now: float
    rayjob: RayJob | None
    rayjob_name: str
    clusters: tuple[RayClusterState, ...]
    pods: tuple[Pod, ...]
    gone_pods: tuple[Pod, ...]
    others: tuple[str, ...]
    driver: DriverView | None
    nodes: Nodes
    has_kuberay: bool
    notices: tuple[Notice, ...] = ()
    marks: Marks = field(default_factory=dict)
    former_node: str = ""
    sizes: tuple[NodeSize, ...] | None = None
    spot: tuple[SpotGroup, ...] = ()
    claims: tuple[VolumeClaim, ...] = ()
    queue: QueueState | None = None
    is_launched: bool = False

    @classmethod
    def from_facts(cls, facts: Pass, attempt: AttemptObject) -> Scene:
        """Create the scene of one attempt from the view of a pass."""
        view, number = facts.view, attempt.spec.number
        name = name_rayjob(view.pipeline.meta.name, number)
        rayjob = next((job for job in view.rayjobs if job.meta.name == name), None)
        living, gone_pods = part_pods(view)
        driver = view.driver if view.driver and view.driver.attempt == attempt.meta.name else None
        return cls(
            attempt=attempt,
            status=settle_attempt(attempt.status, facts.now),
            spec=facts.spec,
            limits=facts.limits,
            now=facts.now,
            rayjob=rayjob,
            rayjob_name=name,
            clusters=tuple(
                raycluster for raycluster in view.rayclusters if _is_of(raycluster.meta, number)
            ),
            pods=tuple(pod for pod in living if _is_of(pod.meta, number)),
            gone_pods=tuple(pod for pod in gone_pods if _is_of(pod.meta, number)),
            others=tuple(_list_others(view, number)),
            driver=driver,
            nodes=view.nodes,
            has_kuberay=view.has_kuberay,
            notices=view.notices,
            marks=view.marks,
            former_node=_find_former_node(view, number),
            sizes=view.sizes,
            spot=view.pipeline.status.spot,
            claims=tuple(filter(None, (view.claim, view.output))),
            queue=view.queue,
        )

    def with_status(self, status: AttemptStatus) -> Scene:
        """Return a copy of the scene with a new status of the attempt."""
        return replace(self, status=status)

    def read_pod(self, pod: Pod) -> Iterator[Evidence]:
        """Yield all evidence from a pod and its node."""
        return find_pod_evidence(pod, self.marks.get(pod.meta.uid), self.notices)

    def find_taker(self, pod: Pod) -> PodDisruption | None:
        """Return the known disruption of a pod's node, if any, regardless of the pod's state."""
        return find_mark(pod, self.marks.get(pod.meta.uid), self.notices)

    @property
    def all_pods(self) -> tuple[Pod, ...]:
        """Pods that may still run, and last states of deleted or lost pods."""
        return (*self.pods, *self.gone_pods)

    @property
    def is_gone(self) -> bool:
        """Return True if no object remains that could run."""
        return self.rayjob is None and not self.clusters and not self.pods

    @property
    def wait(self) -> str:
        """Description of the wait for pods on an unresponsive node; empty if there are none."""
        return describe_wait(self.pods, self.nodes)

    @property
    def is_queued(self) -> bool:
        """Return True if a queue holds the RayJob, or KubeRay has not processed its release yet."""
        rayjob = self.rayjob
        # A driver that has started is not waiting: it runs until KubeRay stops it.
        if rayjob is None or self.status.running_time is not None:
            return False
        return rayjob.is_suspended or rayjob.deployment in SUSPENDED

    @property
    def is_running(self) -> bool:
        """Return True if KubeRay reports that the driver is running."""
        return self.rayjob is not None and self.rayjob.deployment == "Running"


def role_of(pod: Pod) -> str:
    """Return a pod's role, a value of `Role`, or an empty string if the pod has no role."""
    return pod.meta.labels.get(ROLE_LABEL, "")


def is_head(pod: Pod) -> bool:
    """Return True if the pod is a head, which runs the driver."""
    return role_of(pod) == Role.HEAD


def _is_of(meta: Meta, number: int) -> bool:
    return meta.labels.get(ATTEMPT_LABEL) == str(number)


def _list_others(view: View, number: int) -> Iterator[str]:
    """Yield kinds and names of the remaining objects of other attempts."""
    for rayjob in view.rayjobs:
        if not _is_of(rayjob.meta, number):
            yield f"RayJob {rayjob.meta.name}"
    for cluster in view.rayclusters:
        if not _is_of(cluster.meta, number):
            yield f"RayCluster {cluster.meta.name}"
    for pod in part_pods(view)[0]:
        if not _is_of(pod.meta, number):
            yield f"pod {pod.meta.name}"


def _find_former_node(view: View, number: int) -> str:
    """Return the node of the head of the previous attempt, or an empty string if unknown."""
    heads = [pod for pod in (*view.pods, *view.gone_pods) if is_head(pod) and pod.node]
    former = [pod for pod in heads if not _is_of(pod.meta, number)]
    newest = max(former, key=lambda pod: pod.meta.created, default=None)
    return "" if newest is None else newest.node
