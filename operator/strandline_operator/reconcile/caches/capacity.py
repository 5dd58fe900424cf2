"""Node sizes for memory limits of pods, read at most once per interval for all pipelines.

A cluster can have thousands of nodes, so only node sizes are kept. They are requested only after a
kill for memory, if no limit is set. A missing right to list nodes is not reported, because the only
effect is a missing limit. The module must not depend on the use of the sizes.
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
# The right is probably missing on purpose, so retry rarely.
FORBIDDEN_SECONDS = 86_400.0

Sizes = tuple[NodeSize, ...] | None


@dataclass(slots=True)
class CapacityMemory:
    """Cached sizes of all nodes."""

    _entries: TtlCache[None, Sizes] = field(default_factory=lambda: TtlCache(KEEP_SECONDS))
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def read(self, api: Api, now: float) -> Sizes:
        """Return the sizes; None if nodes may not be listed, or if reading failed."""
        # All pipelines may need the sizes at once, but one list of thousands of nodes is enough.
        async with self._lock:
            entry = self._entries.find(None, now)
            if entry is not None:
                return entry.value
            sizes, seconds = await _list(api)
            return self._entries.keep(None, sizes, now, seconds)


async def _list(api: Api) -> tuple[Sizes, float]:
    """Return the sizes, and their validity in seconds."""
    sizes: list[NodeSize] = []
    try:
        async for page in api.list_pages(Scope(Resource.NODE, None)):
            sizes += filter(None, map(read_size, page.items))
    except Forbidden:
        return None, FORBIDDEN_SECONDS
    except ApiError:
        return None, KEEP_SECONDS
    return tuple(sizes), KEEP_SECONDS
