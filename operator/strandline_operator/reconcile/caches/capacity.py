"""What the nodes have for pods, read at most once in a while for all pipelines together.

A cluster can have thousands of nodes, so only their sizes are kept, and they are asked for where a
pod has been killed for memory and no limit is set. Where they may not be listed nobody is
told: it only means that there is no limit. This room must not know what follows.
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
# A right that is missing is missing on purpose.
FORBIDDEN_SECONDS = 86_400.0

Sizes = tuple[NodeSize, ...] | None


@dataclass(slots=True)
class CapacityMemory:
    """The sizes of all nodes, as they were read last."""

    _entries: TtlCache[None, Sizes] = field(default_factory=lambda: TtlCache(KEEP_SECONDS))
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def read(self, api: Api, now: float) -> Sizes:
        """Return the sizes; None where nodes may not be listed, or could not be."""
        # All pipelines may ask at once, and one list of thousands of nodes does for them.
        async with self._lock:
            entry = self._entries.find(None, now)
            if entry is not None:
                return entry.value
            sizes, seconds = await _list(api)
            return self._entries.keep(None, sizes, now, seconds)


async def _list(api: Api) -> tuple[Sizes, float]:
    """Return the sizes, and for how many seconds they are good enough."""
    sizes: list[NodeSize] = []
    try:
        async for page in api.list_pages(Scope(Resource.NODE, None)):
            sizes += filter(None, map(read_size, page.items))
    except Forbidden:
        return None, FORBIDDEN_SECONDS
    except ApiError:
        return None, KEEP_SECONDS
    return tuple(sizes), KEEP_SECONDS
