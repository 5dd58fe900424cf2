"""Follows the objects that carry our labels, in one namespace or in all.

kopf's streams know no absence: they end the operator where a kind is not served, or where rights
are missing. What belongs to KubeRay may come and go, so these streams wait and try again. This
room must not know what becomes of what it sees.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from strandline_operator.cluster.api import Scope, WatchApi
from strandline_operator.cluster.errors import ApiError, Forbidden, Gone, NotFound
from strandline_operator.cluster.watches.scope_cache import Entry, Observation, ScopeCache

T = TypeVar("T")

_LOGGER = logging.getLogger(__name__)
PAUSE = 0.1
FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0


class Watch(Generic[T]):
    """Lists, then follows, then lists again where the thread was lost.

    A change that leaves what is read of an object as it was is not told.

    An object missing from a new list went between two looks, and is reported as gone with the last
    that was seen of it.

    Args:
        cache: keeps what it sees.
        absence: level of the log line where the kind is not served.

    Attributes:
        last_event: when it last heard of the server, or was refused by it; by its own clock.
        refused: that it may not look, for want of rights; None where it may.
        has_begun: it has listed all, or could not.
    """

    def __init__(
        self,
        api: WatchApi,
        scope: Scope,
        *,
        cache: ScopeCache[T],
        notify: Callable[[Observation[T]], None],
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        absence: int = logging.WARNING,
    ) -> None:
        self.scope = scope
        self.last_event = clock()
        self.refused: Forbidden | None = None
        self.has_begun = False
        self._api = api
        self._cache = cache
        self._notify = notify
        self._clock = clock
        self._sleep = sleep
        self._absence = absence
        self._failures = 0
        self._losses = 0

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                if not self._cache.version:
                    await self._list()
                await self._follow()
            except Gone:
                self._cache.version = ""
                await self._wait_after_loss()
            except ApiError as error:
                await self._wait_after(error)

    async def _list(self) -> None:
        # Page by page, since all objects of a large cluster at once take much memory.
        entries: list[Entry[T]] = []
        version = ""
        async for page in self._api.list_pages(self.scope):
            entries = [] if page.is_first else entries
            entries += map(self._cache.read, page.items)
            version = page.version
            self.last_event = self._clock()  # a list may have many pages, each half a minute long
        self._note_event()
        self._report(self._cache.replace(entries, version))

    async def _follow(self) -> None:
        async for event in self._api.watch(self.scope, self._cache.version):
            self._note_event()
            # An opened stream shows nothing yet: the server may have forgotten that version.
            self._losses = self._losses if event.get("type") == "OPEN" else 0
            self._report(self._cache.apply(str(event.get("type")), event.get("object") or {}))
        await self._sleep(PAUSE)

    def _report(self, changes: list[Observation[T]]) -> None:
        for change in changes:
            self._notify(change)

    def _note_event(self) -> None:
        self.last_event = self._clock()
        self.refused = None
        self.has_begun = self._cache.is_connected = True
        self._failures = 0

    async def _wait_after_loss(self) -> None:
        """Wait before all is listed again, but for the first time.

        Lists of a large cluster are what a server that forgets so fast can bear least.
        """
        if self._losses:
            await self._sleep(min(LONGEST_WAIT, FIRST_WAIT * 2 ** (self._losses - 1)))
        self._losses = min(self._losses + 1, 10)

    async def _wait_after(self, error: ApiError) -> None:
        self.last_event = self._clock()
        self.has_begun, self._cache.is_connected = True, False
        self.refused = error if isinstance(error, Forbidden) else None
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2**self._failures)
        wait = max(wait, error.retry_after or 0.0)
        is_absent = isinstance(error, NotFound) or (
            self.scope.is_optional and isinstance(error, Forbidden)
        )
        level = self._absence if is_absent else logging.WARNING
        level = logging.DEBUG if self._failures else level
        _LOGGER.log(level, "watching %s again in %.1f s: %s", self.scope.resource, wait, error)
        self._failures = min(self._failures + 1, 10)
        await self._sleep(wait)
