"""What namespaces demand of the CPU of containers, read where something may be made there.

A few objects a namespace, asked for once in a while for all of its pipelines. Where they may not be
read nothing is known to be demanded: the API server's refusal tells it then. This room must not
know what is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline_operator.cluster.api import Api
from strandline_operator.cluster.errors import ApiError, Forbidden
from strandline_operator.model.cpu_rules import CpuRules, read_rules
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.ttl_cache import TtlCache

KEEP_SECONDS = 60.0
# A right that is missing is missing on purpose.
FORBIDDEN_SECONDS = 86_400.0


@dataclass(slots=True)
class CpuRulesMemory:
    """The rules of namespaces, as they were read last."""

    _entries: TtlCache[str, CpuRules] = field(default_factory=lambda: TtlCache(KEEP_SECONDS))

    async def read(self, api: Api, namespace: str, now: float) -> CpuRules:
        """Return a namespace's rules; what was known before while they can't be read."""
        entry = self._entries.find(namespace, now)
        if entry is not None:
            return entry.value
        return await self._entries.share(namespace, lambda: self._ask(api, namespace, now))

    async def _ask(self, api: Api, namespace: str, now: float) -> CpuRules:
        try:
            quotas = await api.list_all(Resource.QUOTA, namespace)
            ranges = await api.list_all(Resource.LIMIT_RANGE, namespace)
        except Forbidden:
            return self._entries.keep(namespace, CpuRules(), now, FORBIDDEN_SECONDS)
        except ApiError:
            before = self._entries.find_any(namespace)
            return CpuRules() if before is None else before.value
        return self._entries.keep(namespace, read_rules(quotas, ranges), now)
