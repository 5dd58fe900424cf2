"""Caches each namespace's CPU rules for containers, which are read before an attempt is created.

All pipelines of a namespace share the cached rules. If the rules may not be read, no rules are
assumed: if an object violates a rule, the API server rejects the object with a message. This module
must not depend on which objects are created.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline_operator.cluster.api import Api
from strandline_operator.cluster.errors import ApiError, Forbidden
from strandline_operator.model.cpu_rules import CpuRules, read_rules
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.ttl_cache import TtlCache

KEEP_SECONDS = 60.0
# Seconds between tries without permission, which is probably denied on purpose.
FORBIDDEN_SECONDS = 86_400.0


@dataclass(slots=True)
class CpuRulesMemory:
    """Cached CPU rules of namespaces."""

    _entries: TtlCache[str, CpuRules] = field(default_factory=lambda: TtlCache(KEEP_SECONDS))

    async def read(self, api: Api, namespace: str, now: float) -> CpuRules:
        """Return a namespace's rules. If reading fails, return the last known rules."""
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
