"""Caches the nodes of pods: the state of nodes with overdue pods, and the marks of all nodes.

A kubelet that does not respond never deletes its pods, and only the current node object on the API
server shows whether they may still run. Marks that explain the loss of a node are on the same
object, which is often deleted before a pass reads it. The operator therefore watches nodes if it
may. Otherwise, it reads a node when a pod starts or terminates, and keeps the last state. Reads are
cached because many pipelines can share a node. This module must not depend on how the marks are
used.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from strandline_api.names import ROLE_LABEL
from strandline_operator.cluster.api import Api, Body
from strandline_operator.cluster.errors import ApiError, Forbidden
from strandline_operator.cluster.watches.scope_cache import Observation, ScopeCache
from strandline_operator.model.nodes.marks import (
    NodeMarks,
    NodeState,
    NodeView,
    read_marks,
    read_node,
)
from strandline_operator.model.objects import Pod
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.ttl_cache import TtlCache
from strandline_operator.render.order import Role

KEEP_SECONDS = 10.0
# Seconds beyond the grace period that a healthy kubelet may need to delete a pod.
OVERDUE_SECONDS = 10.0
# Seconds by which a node's deletion may be observed after its pods' deletion, because pods and
# nodes have separate watches.
LATE_SECONDS = 10.0
NEW_SECONDS = 60.0
# Seconds between tries without permission, which is probably denied on purpose.
FORBIDDEN_SECONDS = 3_600.0
# Maximum numbers of deleted nodes and of pods to keep, at about 300 bytes each.
MOST_GONE, MOST_PODS = 2_000, 10_000
# Maximum node reads per pass without a watch, so that a pool of hundreds of nodes does not delay
# the pass.
MOST_READS = 8


def list_suspects(pods: Iterable[Pod], now: float) -> tuple[str, ...]:
    """Return the names of nodes with a pod that should have been deleted by now."""
    names = (pod.node for pod in pods if pod.node and is_overdue(pod, now))
    return tuple(sorted(set(names)))


def is_overdue(pod: Pod, now: float) -> bool:
    """Return True if a terminating pod should be gone by now."""
    return pod.meta.gone_by is not None and now > pod.meta.gone_by + OVERDUE_SECONDS


def cache_nodes() -> ScopeCache[NodeMarks]:
    """Return an empty cache for a watch of all nodes. The cache stores only their marks."""

    def read(body: Body, _: NodeMarks | None) -> NodeMarks:
        return read_marks(body)

    return ScopeCache(read, lambda marks: (marks.name,))


class _NodeRead(NamedTuple):
    """State and marks of a node on the API server. The marks are None if unavailable."""

    view: NodeView
    marks: NodeMarks | None = None


class _LastMarks(NamedTuple):
    """Marks of a pod's node, and the time at which the pod disappeared."""

    marks: NodeMarks
    gone_at: float


@dataclass(slots=True)
class NodeMemory:
    """Cached states and marks of nodes.

    Attributes:
        is_allowed: whether the operator is configured to read nodes.
        watched: cache that the watch of all nodes fills, if there is a watch.
    """

    is_allowed: bool = True
    watched: ScopeCache[NodeMarks] = field(default_factory=cache_nodes)
    _entries: TtlCache[str, _NodeRead] = field(default_factory=lambda: TtlCache(KEEP_SECONDS))
    _last: OrderedDict[str, NodeMarks] = field(default_factory=OrderedDict)
    _of_pods: OrderedDict[str, _LastMarks] = field(default_factory=OrderedDict)
    _blind_until: float = float("-inf")

    async def look(self, api: Api, names: Iterable[str], now: float) -> dict[str, NodeView]:
        """Return the states of nodes by name. A node that can't be read has the state `UNREAD`."""
        return {name: (await self._read(api, name, now)).view for name in names}

    def note(self, observation: Observation[NodeMarks]) -> None:
        """Record a change or deletion of a node from the watch.

        Marks of a deleted node are kept, because its pods are deleted later.
        """
        marks = observation.value
        if observation.is_gone:
            _put(self._last, marks.name, replace(marks, is_gone=True), MOST_GONE)
        else:
            self._last.pop(marks.name, None)

    async def read_marks(
        self, api: Api, pods: Iterable[Pod], gone_pods: Iterable[Pod], now: float
    ) -> dict[str, NodeMarks]:
        """Return the marks of pods' nodes by pod uid. For deleted pods, use the marks at deletion.

        Later marks must not count: a node without pods may be drained long afterwards, or
        immediately after a surplus worker was deleted.
        """
        living, gone_on_nodes = ([pod for pod in group if pod.node] for group in (pods, gone_pods))
        if self.is_allowed and not self.watched.is_current(now):
            new = [pod for pod in gone_on_nodes if pod.meta.uid not in self._of_pods]
            await self._read_unwatched(api, living, new, now)
        leaving = [pod for pod in living if _is_let_go(pod)]
        by_pod = {pod.meta.uid: self._find(pod, now) for pod in living}
        for pod in (*leaving, *gone_on_nodes):
            last_marks = self._of_pods.get(pod.meta.uid)
            is_late = last_marks is not None and (
                _is_let_go(pod) or now - last_marks.gone_at >= LATE_SECONDS
            )
            if not is_late:
                last_marks = self._keep(pod, last_marks, now)
            if last_marks is not None:
                by_pod[pod.meta.uid] = last_marks.marks
        return {uid: marks for uid, marks in by_pod.items() if marks is not None}

    def _keep(self, pod: Pod, last_marks: _LastMarks | None, now: float) -> _LastMarks | None:
        marks = self._find(pod, now)
        if marks is None:
            return last_marks
        last = _LastMarks(marks, now if last_marks is None else last_marks.gone_at)
        _put(self._of_pods, pod.meta.uid, last, MOST_PODS)
        return last

    def _find(self, pod: Pod, now: float) -> NodeMarks | None:
        """Return the last known marks of a pod's node, if any."""
        watched = next(iter(self.watched.find(pod.node)), None)
        is_current = self.watched.is_current(now)
        if watched is not None and is_current:
            return watched
        last = self._last.get(pod.node, watched)
        # If a watched object is missing, the node disappeared before this process started. Exclude
        # new nodes, which the watch may not have yet, and servers that hide all nodes from the
        # operator.
        is_old = now - pod.meta.created > NEW_SECONDS and (pod.is_gone or _is_leaving(pod))
        if last is None and is_current and is_old and len(self.watched) > 0:
            return NodeMarks(pod.node, is_known=False, is_gone=True)
        return last

    async def _read_unwatched(
        self, api: Api, living: list[Pod], gone_pods: list[Pod], now: float
    ) -> None:
        """Read the nodes of terminating and deleted pods, and nodes that are not cached."""
        names = [pod.node for pod in (*gone_pods, *filter(_is_leaving, living))]
        names += [pod.node for pod in living if not self._has(pod.node)]
        for name in list(dict.fromkeys(names))[:MOST_READS]:
            if now < self._blind_until:
                return
            await self._read(api, name, now)

    def _has(self, name: str) -> bool:
        """Return True if a node is cached and exists. A new node may reuse an earlier name."""
        last_marks = self._last.get(name)
        return last_marks is not None and not last_marks.is_gone

    async def _read(self, api: Api, name: str, now: float) -> _NodeRead:
        node_read = await self._entries.read(name, now, partial(self._ask, api, name, now))
        if node_read.marks is not None:
            _put(self._last, name, node_read.marks, MOST_GONE)
        elif node_read.view.state is NodeState.GONE:
            last_marks = self._last.get(name, NodeMarks(name, is_known=False))
            _put(self._last, name, replace(last_marks, is_gone=True), MOST_GONE)
        return node_read

    async def _ask(self, api: Api, name: str, now: float) -> _NodeRead:
        if not self.is_allowed:
            return _NodeRead(NodeView(NodeState.UNREAD))
        try:
            body = await api.get(Resource.NODE, None, name)
        except Forbidden:
            self._blind_until = now + FORBIDDEN_SECONDS
            return _NodeRead(NodeView(NodeState.UNREAD))
        except ApiError:
            return _NodeRead(NodeView(NodeState.UNREAD))
        return _NodeRead(read_node(body), None if body is None else read_marks(body))


def _is_let_go(pod: Pod) -> bool:
    """Return True if a worker is being deleted without a disruption, for example as surplus.

    Heads don't count: a head that is deleted like this may have been on an unresponsive node.
    """
    is_worker = pod.meta.labels.get(ROLE_LABEL) == Role.WORKER
    return is_worker and pod.meta.is_deleting and not (pod.disruption or pod.reason)


def _is_leaving(pod: Pod) -> bool:
    return bool(pod.meta.is_deleting or pod.disruption or pod.reason or pod.phase == "Failed")


def _put(entries: OrderedDict[str, Any], key: str, value: object, most: int) -> None:
    """Store a value as the newest, and drop the oldest values beyond the maximum."""
    entries.pop(key, None)
    entries[key] = value
    while len(entries) > most:
        entries.popitem(last=False)
