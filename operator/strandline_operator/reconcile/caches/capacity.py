"""Caches node sizes, which limit the memory of pods. One read per interval serves all pipelines.

A cluster can have thousands of nodes, so the cache stores only their sizes. The operator reads them
only after an out-of-memory kill, if the policy has no limit. A missing permission to list nodes is
not reported, because then only the limit is missing. This module must not depend on how the sizes
are used.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from strandline_operator.cluster.api import Api, Scope
from strandline_operator.cluster.errors import ApiError, Forbidden
from strandline_operator.model.nodes.capacity import NodeSize, read_size
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.ttl_cache import TtlCache

KEEP_SECONDS = 600.0
# Seconds between tries without permission, which is probably denied on purpose.
FORBIDDEN_SECONDS = 86_400.0

Sizes = tuple[NodeSize, ...] | None


@dataclass(slots=True)
class CapacityMemory:
    """Cached sizes of all nodes."""

    _entries: TtlCache[None, Sizes] = field(default_factory=lambda: TtlCache(KEEP_SECONDS))
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def read(self, api: Api, now: float) -> Sizes:
        """Return the sizes, or None if nodes may not be listed or reading failed."""
        # Several pipelines may need the sizes at the same time, so let them wait for a single list.
        async with self._lock:
            entry = self._entries.find(None, now)
            if entry is not None:
                return entry.value
            sizes, seconds = await _list(api)
            return self._entries.keep(None, sizes, now, seconds)


async def _list(api: Api) -> tuple[Sizes, float]:
    """Return the sizes, and how long they are valid, in seconds."""
    sizes: list[NodeSize] = []
    try:
        async for page in api.list_pages(Scope(Resource.NODE, None)):
            sizes += filter(None, map(read_size, page.items))
    except Forbidden:
        return None, FORBIDDEN_SECONDS
    except ApiError:
        return None, KEEP_SECONDS
    return tuple(sizes), KEEP_SECONDS
