"""The last that was seen of pods, for as long as it may tell why an attempt ended.

Much of what names a cause stands in a pod for less than a second before the pod is gone. This room
must not know what it means.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from strandline_api.names import PIPELINE_UID_LABEL
from strandline_operator.cluster.watches.scope_cache import Observation
from strandline_operator.model.objects import Meta, Pod

# A pod takes some 2 kB here.
MOST_OF_ONE = 200
MOST_OF_ALL = 10_000
Pods = TypeVar("Pods", dict[str, Pod], OrderedDict[str, Pod])


class PodOwner(NamedTuple):
    """A pipeline's namespace and uid.

    A uid alone does not do: whatever was copied into another namespace with all its labels, by a
    backup perhaps, is none of the pipeline's, and no list of its namespace would have it.
    """

    namespace: str
    uid: str


@dataclass(slots=True)
class PodMemory:
    """Pods by their pipeline: those that live, and the newest of those that went."""

    most_of_one: int = MOST_OF_ONE
    most_of_all: int = MOST_OF_ALL
    _live: dict[PodOwner, dict[str, Pod]] = field(default_factory=dict)
    # Pods by uid, and their owners, in the order of their end.
    _gone_pods: dict[PodOwner, OrderedDict[str, Pod]] = field(default_factory=dict)
    _order: OrderedDict[str, PodOwner] = field(default_factory=OrderedDict)

    def note(self, observation: Observation[Pod]) -> PodOwner:
        """Record that a pod was seen or went; return its owner."""
        pod = observation.value
        pipeline = find_owner(pod.meta)
        if observation.is_gone:
            _take_out(self._live, pipeline, pod.meta.uid)
            self._mark_gone(pipeline, pod)
        elif pod.meta.uid not in self._order:
            self._live.setdefault(pipeline, {})[pod.meta.uid] = pod
        return pipeline

    def live(self, pipeline: PodOwner) -> dict[str, Pod]:
        """Return the pods of a pipeline that live as far as the watch knows, by uid."""
        return dict(self._live.get(pipeline, {}))

    def gone(self, pipeline: PodOwner) -> tuple[Pod, ...]:
        """Return the last of those that went, in the order of their ends."""
        return tuple(self._gone_pods.get(pipeline, {}).values())

    def compare(
        self, pipeline: PodOwner, before: Mapping[str, Pod], pods: Iterable[Pod]
    ) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
        """Put a fresh list and the watch together: pods that live, and the last of those gone.

        Args:
            before: what `live` said before the list was asked for. What it knows and the list does
                not is gone, though the watch has not told yet.
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
        """Forget a pipeline that is gone, and what was seen of its pods."""
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
    """Remove a pod, and its owner with the last one: some owners go without an event."""
    mine = pods.get(owner)
    if mine is not None:
        mine.pop(uid, None)
        if not mine:
            del pods[owner]


def find_owner(meta: Meta) -> PodOwner:
    """Return the pipeline that an object belongs to by its labels; its uid is empty without any."""
    return PodOwner(meta.namespace, meta.labels.get(PIPELINE_UID_LABEL, ""))
