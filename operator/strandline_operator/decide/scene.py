"""What deciders are given, frozen: a whole pass, and one attempt with all that belongs to it."""

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
from strandline_operator.decide.evidence.disruptions import Taking, find_mark
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
    """Ask one finder after another; the first that finds something wins, and no other is asked."""
    return next((result for find in finders if (result := find(entry)) is not None), None)


def part_pods(view: View) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
    """Return the pods that may still run, and the last bodies of those that can't."""
    lost_pods = tuple(pod for pod in view.pods if _is_lost(pod, view.nodes))
    living = tuple(pod for pod in view.pods if pod not in lost_pods)
    return living, (*view.gone_pods, *(replace(pod, is_gone=True) for pod in lost_pods))


def find_lost_node(pod: Pod, nodes: Nodes, marks: Marks) -> Evidence | None:
    """Find a node that has taken a pod away, or keeps it; None for a node that is well."""
    node = nodes.get(pod.node)
    # A pod that is not being deleted may come back with its node.
    if node is None or not pod.meta.is_deleting:
        return None
    kind = _LOSSES.get(node.state)
    # A node that answers has lost none of its pods.
    if kind is None:
        return None
    node_marks = marks.get(pod.meta.uid, NodeMarks(pod.node, is_known=False))
    is_gone = node.state is NodeState.GONE
    taker = find_mark(pod, replace(node_marks, is_gone=True) if is_gone else node_marks)
    kind = kind if taker is None else taker.kind
    role = pod.meta.labels.get(ROLE_LABEL, "pod")
    message = f"node {pod.node} of {role} pod {pod.meta.name} {node.state}"
    # A taker explains more than the state of the node does.
    if taker is not None and kind is not Disruption.NODE_GONE:
        message = f"{kind.describe(pod.node, taker.what)}: {message}"
    details = {"pod": pod.meta.name, "podUid": pod.meta.uid, "node": pod.node}
    details |= {"role": role, "reason": kind.value}
    return Evidence(kind.cause, message, "node", details)


def describe_wait(pods: Iterable[Pod], nodes: Nodes) -> str:
    """Describe what is waited for where a node does not say what became of its pods.

    Empty: nothing.
    """
    withheld = [pod for pod in pods if pod.meta.is_deleting and _is_withheld(pod, nodes)]
    # Pods of a node that answers go by themselves.
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


# KubeRay's words for a RayJob that a queue, or a user, has stopped to start it another time.
SUSPENDED = frozenset({"Suspending", "Suspended"})


@dataclass(frozen=True)
class Pass:
    """All that one pass over a pipeline decides from.

    Attributes:
        spec: what the pipeline is held to; defaults where its own can't be read.
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
        """The attempt of the highest number, as it was read."""
        return self.view.attempts[-1] if self.view.attempts else None

    @cached_property
    def scene(self) -> Scene | None:
        """The newest attempt's scene where that attempt is not over; None: nothing is under way."""
        newest = self.newest
        return None if newest is None or newest.status.is_frozen else Scene.of(self, newest)


@dataclass(frozen=True, slots=True)
class Scene:
    """An attempt and its objects, at the moment of a pass.

    Attributes:
        attempt: as it was read.
        status: as it stands after what this pass has found out so far.
        spec: what the attempt is held to.
        rayjob: None where there is none of its name that is ours.
        others: RayJobs, clusters and pods of other attempts that are still there.
        gone_pods: last bodies of those that are gone, lost with their nodes or deleted.
        has_kuberay: the absence of a RayJob means that it is gone.
        marks: of the nodes of its pods, by uid of the pod.
        former_node: where the head of the attempt before it was; empty: unknown.
        notices: what others say of any of it, in no order.
        sizes: of all nodes; None where they were not read.
        spot: how spot nodes have served the run so far.
        claims: those of the pipeline's storage that exist.
        queue: the report of a scheduler about its RayJob; None if it does not wait or is unknown.
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

    @classmethod
    def of(cls, facts: Pass, attempt: AttemptObject) -> Scene:
        """Pick one attempt's objects out of all that a pass has read."""
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
        """Return the same scene with another status of the attempt."""
        return replace(self, status=status)

    def read_pod(self, pod: Pod) -> Iterator[Evidence]:
        """Yield all that a pod and its node say of a cause."""
        return find_pod_evidence(pod, self.marks.get(pod.meta.uid), self.notices)

    def find_taker(self, pod: Pod) -> Taking | None:
        """Return how a pod's node is being taken, whatever has become of the pod."""
        return find_mark(pod, self.marks.get(pod.meta.uid), self.notices)

    @property
    def all_pods(self) -> tuple[Pod, ...]:
        """Pods that are there and pods that were."""
        return (*self.pods, *self.gone_pods)

    @property
    def is_gone(self) -> bool:
        """Nothing is left that could run."""
        return self.rayjob is None and not self.clusters and not self.pods

    @property
    def wait(self) -> str:
        """Return which node's pods are waited for in vain; empty where none are."""
        return describe_wait(self.pods, self.nodes)

    @property
    def is_queued(self) -> bool:
        """A queue holds it back, or KubeRay has not taken note yet that none does any more."""
        rayjob = self.rayjob
        # A driver that has run is no longer waited for: it is at work until KubeRay stops it.
        if rayjob is None or self.status.running_time is not None:
            return False
        return rayjob.is_suspended or rayjob.deployment in SUSPENDED

    @property
    def is_running(self) -> bool:
        """KubeRay says that the driver runs."""
        return self.rayjob is not None and self.rayjob.deployment == "Running"


def role_of(pod: Pod) -> str:
    """Return what a pod is for: a word of `Role`, or empty."""
    return pod.meta.labels.get(ROLE_LABEL, "")


def is_head(pod: Pod) -> bool:
    """Return whether the driver lives in it."""
    return role_of(pod) == Role.HEAD


def _is_of(meta: Meta, number: int) -> bool:
    return meta.labels.get(ATTEMPT_LABEL) == str(number)


def _list_others(view: View, number: int) -> Iterator[str]:
    """Yield names of what other attempts have left, by kind."""
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
    """Return the node of the last head before an attempt, as far as it is remembered."""
    heads = [pod for pod in (*view.pods, *view.gone_pods) if is_head(pod) and pod.node]
    former = [pod for pod in heads if not _is_of(pod.meta, number)]
    newest = max(former, key=lambda pod: pod.meta.created, default=None)
    return "" if newest is None else newest.node
