"""Keeps the last known states of pods while they may explain the end of an attempt.

Most evidence appears in a pod less than a second before the pod is deleted. This module must not
depend on the meaning of the evidence.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from strandline_api.names import PIPELINE_UID_LABEL
from strandline_operator.cluster.watches.scope_cache import Observation
from strandline_operator.model.objects import Meta, Pod

# Maximum number of deleted pods to keep per pipeline. A pod takes about 2 kB.
MOST_OF_ONE = 200
MOST_OF_ALL = 10_000
Pods = TypeVar("Pods", dict[str, Pod], OrderedDict[str, Pod])


class PodOwner(NamedTuple):
    """A pipeline's namespace and uid.

    The uid alone is not unique: copies of the pods in another namespace, for example from a backup,
    have the same labels, but do not belong to the pipeline.
    """

    namespace: str
    uid: str


@dataclass(slots=True)
class PodMemory:
    """Pods by pipeline: existing pods, and the pods that were deleted most recently."""

    most_of_one: int = MOST_OF_ONE
    most_of_all: int = MOST_OF_ALL
    _live: dict[PodOwner, dict[str, Pod]] = field(default_factory=dict)
    # Deleted pods by owner and uid, and the owner of each deleted pod, in order of deletion.
    _gone_pods: dict[PodOwner, OrderedDict[str, Pod]] = field(default_factory=dict)
    _order: OrderedDict[str, PodOwner] = field(default_factory=OrderedDict)

    def note(self, observation: Observation[Pod]) -> PodOwner:
        """Record a change or deletion of a pod from the watch, and return the pod's owner."""
        pod = observation.value
        pipeline = find_owner(pod.meta)
        if observation.is_gone:
            _take_out(self._live, pipeline, pod.meta.uid)
            self._mark_gone(pipeline, pod)
        elif pod.meta.uid not in self._order:
            self._live.setdefault(pipeline, {})[pod.meta.uid] = pod
        return pipeline

    def live(self, pipeline: PodOwner) -> dict[str, Pod]:
        """Return a pipeline's existing pods by uid, according to the watch."""
        return dict(self._live.get(pipeline, {}))

    def gone(self, pipeline: PodOwner) -> tuple[Pod, ...]:
        """Return a pipeline's deleted pods in order of deletion."""
        return tuple(self._gone_pods.get(pipeline, {}).values())

    def compare(
        self, pipeline: PodOwner, before: Mapping[str, Pod], pods: Iterable[Pod]
    ) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
        """Combine a fresh list of pods with the watch. Return existing pods and deleted pods.

        Args:
            before: result of `live` before the list was requested. Pods that are missing from the
                list are deleted, even if the watch has not reported that yet.
            pods: pods in the list.
        """
        gone_pods = {pod.meta.uid: pod for pod in self.gone(pipeline)}
        living = tuple(
            pod.follow(before.get(pod.meta.uid)) for pod in pods if pod.meta.uid not in gone_pods
        )
        uids = {pod.meta.uid for pod in living}
        missing = (
            replace(pod, is_gone=True)
            for uid, pod in before.items()
            if uid not in uids and uid not in gone_pods
        )
        return living, (*gone_pods.values(), *missing)

    def forget(self, pipeline: PodOwner) -> None:
        """Forget a deleted pipeline and its pods."""
        self._live.pop(pipeline, None)
        for uid in self._gone_pods.pop(pipeline, {}):
            self._order.pop(uid, None)

    def __len__(self) -> int:
        return len(self._order) + sum(map(len, self._live.values()))

    def _mark_gone(self, pipeline: PodOwner, pod: Pod) -> None:
        graves = self._gone_pods.setdefault(pipeline, OrderedDict())
        graves.pop(pod.meta.uid, None)
        graves[pod.meta.uid] = replace(pod, is_gone=True)
        self._order.pop(pod.meta.uid, None)
        self._order[pod.meta.uid] = pipeline
        while len(graves) > self.most_of_one:
            uid, _ = graves.popitem(last=False)
            self._order.pop(uid, None)
        while len(self._order) > self.most_of_all:
            uid, owner = self._order.popitem(last=False)
            _take_out(self._gone_pods, owner, uid)


def _take_out(pods: dict[PodOwner, Pods], owner: PodOwner, uid: str) -> None:
    """Remove a pod, and its owner after the last pod: some owners disappear without an event."""
    mine = pods.get(owner)
    if mine is not None:
        mine.pop(uid, None)
        if not mine:
            del pods[owner]


def find_owner(meta: Meta) -> PodOwner:
    """Return the pipeline that an object's labels name. The uid is empty if no label has it."""
    return PodOwner(meta.namespace, meta.labels.get(PIPELINE_UID_LABEL, ""))
