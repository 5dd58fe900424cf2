"""What deciders are given, frozen: a whole pass, and one attempt with all that belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from strandline_api.names import ATTEMPT_LABEL, ROLE_LABEL, name_rayjob
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_operator.model.limits import Limits
from strandline_operator.model.nodes import NodeState, NodeView
from strandline_operator.model.notices import Notice
from strandline_operator.model.objects import Meta, Pod, RayClusterState, RayJob
from strandline_operator.model.view import AttemptObject, DriverView, View
from strandline_operator.render.order import Role

Nodes = Mapping[str, NodeView]
_WITHHELD = frozenset({NodeState.SILENT, NodeState.UNREAD})
Seen = TypeVar("Seen")
Found = TypeVar("Found")


def find_first(finders: Iterable[Callable[[Seen], Found | None]], seen: Seen) -> Found | None:
    """Ask one finder after another; the first that finds something wins, and no other is asked."""
    return next((found for find in finders if (found := find(seen)) is not None), None)


def part_pods(view: View) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
    """Return the pods that may still run, and the last bodies of those that can't."""
    lost = tuple(pod for pod in view.pods if _is_lost(pod, view.nodes))
    living = tuple(pod for pod in view.pods if pod not in lost)
    return living, (*view.gone_pods, *(replace(pod, is_gone=True) for pod in lost))


def find_lost_node(pod: Pod, nodes: Nodes) -> Evidence | None:
    """Find a node that has taken a pod away, or keeps it; None for a node that is well."""
    node = nodes.get(pod.node)
    # A pod that nobody has told to go may come back with its node.
    if node is None or not pod.meta.is_deleting:
        return None
    if not (node.state.is_lost or node.state is NodeState.SILENT):
        return None
    role = pod.meta.labels.get(ROLE_LABEL, "pod")
    message = f"node {pod.node} of {role} pod {pod.meta.name} {node.state}"
    details = {"pod": pod.meta.name, "node": pod.node, "role": role, "reason": node.state.name}
    return Evidence(Cause.NODE_LOST, message, "node", details)


def describe_wait(pods: Iterable[Pod], nodes: Nodes) -> str:
    """Describe what is waited for where a node does not say what became of its pods.

    Empty: nothing.
    """
    kept = [pod for pod in pods if pod.meta.is_deleting and _is_withheld(pod, nodes)]
    # Pods of a node that answers go by themselves.
    if not kept:
        return ""
    name = kept[0].node
    return f"waits for pods of node {name}, which {nodes[name].state}"


def _is_lost(pod: Pod, nodes: Nodes) -> bool:
    node = nodes.get(pod.node)
    return node is not None and node.state.is_lost and pod.meta.is_deleting


def _is_withheld(pod: Pod, nodes: Nodes) -> bool:
    node = nodes.get(pod.node)
    return node is not None and node.state in _WITHHELD


# Words of KubeRay for a RayJob that somebody, mostly a queue, has stopped to start it another time.
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
        notices: warnings about any of it, in no order.
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

    @classmethod
    def of(cls, given: Pass, attempt: AttemptObject) -> Scene:
        """Pick one attempt's objects out of all that a pass has read."""
        view, number = given.view, attempt.spec.number
        name = name_rayjob(view.pipeline.meta.name, number)
        rayjob = next((job for job in view.rayjobs if job.meta.name == name), None)
        living, gone = part_pods(view)
        driver = view.driver if view.driver and view.driver.attempt == attempt.meta.name else None
        return cls(
            attempt=attempt,
            status=attempt.status,
            spec=given.spec,
            limits=given.limits,
            now=given.now,
            rayjob=rayjob,
            rayjob_name=name,
            clusters=tuple(
                raycluster for raycluster in view.rayclusters if _is_of(raycluster.meta, number)
            ),
            pods=tuple(pod for pod in living if _is_of(pod.meta, number)),
            gone_pods=tuple(pod for pod in gone if _is_of(pod.meta, number)),
            others=tuple(_list_others(view, number)),
            driver=driver,
            nodes=view.nodes,
            has_kuberay=view.has_kuberay,
            notices=view.notices,
        )

    def having(self, **changes: object) -> Scene:
        """Return the same scene with fields of the attempt's status changed."""
        return replace(self, status=self.status.model_copy(update=changes))

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
        return rayjob is not None and (rayjob.is_suspended or rayjob.deployment in SUSPENDED)

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
