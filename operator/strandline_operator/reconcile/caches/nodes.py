"""Looks at the nodes of pods that ought to have gone by now, and at no other node.

A node whose kubelet is silent keeps its pods for ever, and only its own object tells whether they
may still run. Many pipelines can have pods on one node, so it is read once in a while for all. This
room must not know what follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from strandline_operator.cluster.api import Api
from strandline_operator.cluster.errors import ApiError
from strandline_operator.model.nodes import NodeState, NodeView, read_node
from strandline_operator.model.objects import Pod
from strandline_operator.model.plan import Resource

KEEP_SECONDS = 10.0
# A kubelet that answers needs some seconds more than the pod's grace.
OVERDUE_SECONDS = 10.0
_MOST = 1000


def list_suspects(pods: Iterable[Pod], now: float) -> tuple[str, ...]:
    """Names of nodes that have not ended a pod although its grace is over."""
    found = (pod.node for pod in pods if pod.node and is_overdue(pod, now))
    return tuple(sorted(set(found)))


def is_overdue(pod: Pod, now: float) -> bool:
    """Whether a pod that was deleted should have gone."""
    return pod.meta.gone_by is not None and now > pod.meta.gone_by + OVERDUE_SECONDS


@dataclass(slots=True)
class NodeMemory:
    """Nodes as they were read last."""

    _kept: dict[str, tuple[float, NodeView]] = field(default_factory=dict)

    async def look(self, api: Api, names: Iterable[str], now: float) -> dict[str, NodeView]:
        """Nodes by name; one that can't be read for want of rights, or now, is unread."""
        return {name: await self._look(api, name, now) for name in names}

    async def _look(self, api: Api, name: str, now: float) -> NodeView:
        read_at, view = self._kept.get(name, (0.0, None))
        if view is None or not 0 <= now - read_at < KEEP_SECONDS:
            view = await _read(api, name)
            if len(self._kept) >= _MOST:
                self._kept.clear()
            self._kept[name] = (now, view)
        return view


async def _read(api: Api, name: str) -> NodeView:
    try:
        return read_node(await api.get(Resource.NODE, None, name))
    except ApiError:
        return NodeView(NodeState.UNREAD)
