"""Looks at the nodes of pods that an attempt has others wait for, and at no other node.

Whoever cordons or deletes such a node waits for a run that nobody may know of, so it is looked at
once in a while for all pipelines. This room must not know what follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from strandline_operator.cluster.api import Api
from strandline_operator.cluster.errors import ApiError, Forbidden
from strandline_operator.model.objects import read_list, read_mapping
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import NodeDrain
from strandline_operator.reconcile.caches.ttl_cache import TtlCache

KEEP_SECONDS = 60.0
# A right that is missing is missing on purpose, for all nodes.
FORBIDDEN_SECONDS = 86_400.0
_KARPENTER = ("karpenter.sh/disrupted", "karpenter.sh/disruption")
_AUTOSCALER = "ToBeDeletedByClusterAutoscaler"


@dataclass(slots=True)
class DrainMemory:
    """Drains of nodes, as they were read last."""

    _kept: TtlCache[str, NodeDrain | None] = field(default_factory=lambda: TtlCache(KEEP_SECONDS))
    _forbidden: TtlCache[None, bool] = field(default_factory=lambda: TtlCache(FORBIDDEN_SECONDS))

    async def look(self, api: Api, names: Iterable[str], now: float) -> dict[str, NodeDrain]:
        """Return those that are being drained, by name of the node."""
        found = {name: await self._read(api, name, now) for name in names}
        return {name: drain for name, drain in found.items() if drain is not None}

    async def _read(self, api: Api, name: str, now: float) -> NodeDrain | None:
        if self._forbidden.find(None, now) is not None:
            return None
        try:
            return await self._kept.read(name, now, partial(_ask, api, name))
        except Forbidden:
            self._forbidden.keep(None, value=True, now=now)
            return None
        except ApiError:
            return self._kept.keep(name, None, now)


async def _ask(api: Api, name: str) -> NodeDrain | None:
    body = await api.get(Resource.NODE, None, name)
    return None if body is None else read_drain(body)


def read_drain(body: Mapping[str, Any]) -> NodeDrain | None:
    """Return what a node's object says of a drain; None where there is none."""
    metadata, spec = read_mapping(body.get("metadata")), read_mapping(body.get("spec"))
    taints = {read_mapping(taint).get("key") for taint in read_list(spec.get("taints"))}
    # Karpenter drains a node that somebody deletes, and each pod as its annotations let it.
    if not taints.isdisjoint(_KARPENTER):
        return NodeDrain("is being taken down by Karpenter", heeds_annotations=True)
    if metadata.get("deletionTimestamp"):
        return NodeDrain("is being deleted", heeds_annotations=True)
    if _AUTOSCALER in taints:
        return NodeDrain("is being taken down by the cluster autoscaler", heeds_annotations=True)
    return NodeDrain("is cordoned") if spec.get("unschedulable") is True else None
