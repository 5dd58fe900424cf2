"""Watches objects with Strandline's labels, in one namespace or in all namespaces.

kopf's streams end the operator if a kind is not served, or a permission is missing. KubeRay may be
installed or removed at any time, so these streams wait and retry. This module must not depend on
how observations are used.
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
    """Lists objects and then follows a stream of changes. After a lost stream, it starts again.

    Changes that do not affect the parsed value are not reported. If an object is missing from a
    later list, it was deleted in the meantime, and its last known state is reported.

    Args:
        cache: cache that stores the objects.
        absence: log level for a kind that is not served.

    Attributes:
        last_event: time of the server's last response, including rejections, by the watch's clock.
        refused: the error if permission is missing, or None.
        has_begun: whether the first list is complete or has failed.
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
        # Read page by page, because the objects of a large cluster would need much memory at once.
        entries: list[Entry[T]] = []
        version = ""
        async for page in self._api.list_pages(self.scope):
            entries = [] if page.is_first else entries
            entries += map(self._cache.read, page.items)
            version = page.version
            # Count each page as progress: a list may have many pages, and each may take half a
            # minute.
            self.last_event = self._clock()
        self._note_event()
        self._report(self._cache.replace(entries, version))

    async def _follow(self) -> None:
        async for event in self._api.watch(self.scope, self._cache.version):
            self._note_event()
            # Reset the number of losses only after a real event: after opening the stream, the
            # server may still reject the version.
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
        """Wait before listing again, except after the first loss.

        A server that quickly discards versions is probably overloaded, and listing a large cluster
        would add to the load.
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
