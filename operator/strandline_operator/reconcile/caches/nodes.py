"""Looks at the nodes of pods that ought to have gone by now, and at no other node.

A node whose kubelet is silent keeps its pods for ever, and only its own object tells whether they
may still run. Many pipelines can have pods on one node, so it is read once in a while for all. This
room must not know what follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from strandline_operator.cluster.api import Api
from strandline_operator.cluster.errors import ApiError
from strandline_operator.model.nodes import NodeState, NodeView, read_node
from strandline_operator.model.objects import Pod
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.ttl_cache import TtlCache

KEEP_SECONDS = 10.0
# A kubelet that answers needs some seconds more than the pod's grace.
OVERDUE_SECONDS = 10.0


def list_suspects(pods: Iterable[Pod], now: float) -> tuple[str, ...]:
    """Return names of nodes that have not ended a pod although its grace is over."""
    found = (pod.node for pod in pods if pod.node and is_overdue(pod, now))
    return tuple(sorted(set(found)))


def is_overdue(pod: Pod, now: float) -> bool:
    """Return whether a pod that was deleted should have gone."""
    return pod.meta.gone_by is not None and now > pod.meta.gone_by + OVERDUE_SECONDS


@dataclass(slots=True)
class NodeMemory:
    """Nodes as they were read last."""

    _kept: TtlCache[str, NodeView] = field(default_factory=lambda: TtlCache(KEEP_SECONDS))

    async def look(self, api: Api, names: Iterable[str], now: float) -> dict[str, NodeView]:
        """Return nodes by name; one that can't be read for want of rights, or now, is unread."""
        return {name: await self._kept.read(name, now, partial(_read, api, name)) for name in names}


async def _read(api: Api, name: str) -> NodeView:
    try:
        return read_node(await api.get(Resource.NODE, None, name))
    except ApiError:
        return NodeView(NodeState.UNREAD)
