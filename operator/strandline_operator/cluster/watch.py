"""Follows the objects that carry our labels, in one namespace or in all.

kopf's streams know no absence: they end the operator where a kind is not served, or where rights
are missing. What belongs to KubeRay may come and go, so these streams wait and try again. This
room must not know what becomes of what it sees.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from strandline_operator.cluster.api import Body, Scope, WatchApi
from strandline_operator.cluster.errors import ApiError, Forbidden, Gone, NotFound

T = TypeVar("T")

_LOGGER = logging.getLogger(__name__)
PAUSE = 0.1
FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0


@dataclass(frozen=True, slots=True)
class Observation(Generic[T]):
    """An object as it was seen; the last of it where it is gone."""

    value: T
    is_gone: bool


class Watch(Generic[T]):
    """Lists, then follows, then lists again where the thread was lost.

    A change that leaves what is read of an object as it was is not told.

    What is missing from a new list went while nobody looked, and is told as gone with the last
    that was seen of it.

    Args:
        absence: level of the log line where the kind is not served.

    Attributes:
        last_event: when it last heard of the server, or was refused by it; by its own clock.
        refused: that it may not look, for want of rights; None where it may.
    """

    def __init__(
        self,
        api: WatchApi,
        scope: Scope,
        *,
        read: Callable[[Body], T],
        notify: Callable[[Observation[T]], None],
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        absence: int = logging.WARNING,
    ) -> None:
        self.scope = scope
        self.last_event = clock()
        self.refused: Forbidden | None = None
        self._api = api
        self._read = read
        self._notify = notify
        self._clock = clock
        self._sleep = sleep
        self._absence = absence
        self._known: dict[str, T] = {}
        self._version = ""
        self._failures = 0

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                if not self._version:
                    self._version = await self._list()
                await self._follow()
            except Gone:
                self._version = ""
            except ApiError as error:
                await self._wait_after(error)

    async def _list(self) -> str:
        page = await self._api.list_page(self.scope)
        self._note_event()
        found = {_uid(body): self._read(body) for body in page.items}
        for uid in self._known.keys() - found.keys():
            self._notify(Observation(self._known[uid], is_gone=True))
        self._known = found
        for value in found.values():
            self._notify(Observation(value, is_gone=False))
        return page.version

    async def _follow(self) -> None:
        stream = self._api.watch(self.scope, self._version)
        async for event in stream:
            self._note_event()
            body = event.get("object") or {}
            # A stream that breaks goes on from here, so that what happens meanwhile is told too.
            self._version = (body.get("metadata") or {}).get("resourceVersion") or self._version
            self._see(str(event.get("type")), body)
        await self._sleep(PAUSE)

    def _see(self, kind: str, body: Body) -> None:
        if kind not in {"ADDED", "MODIFIED", "DELETED"}:
            return
        uid, value = _uid(body), self._read(body)
        is_gone = kind == "DELETED"
        before = self._known.pop(uid, None)
        if not is_gone:
            self._known[uid] = value
        if is_gone or value != before:
            self._notify(Observation(value, is_gone))

    def _note_event(self) -> None:
        self.last_event = self._clock()
        self.refused = None
        self._failures = 0

    async def _wait_after(self, error: ApiError) -> None:
        self.last_event = self._clock()
        self.refused = error if isinstance(error, Forbidden) else None
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2**self._failures)
        wait = max(wait, error.retry_after or 0.0)
        level = self._absence if isinstance(error, NotFound) else logging.WARNING
        level = logging.DEBUG if self._failures else level
        _LOGGER.log(level, "watching %s again in %.1f s: %s", self.scope.resource, wait, error)
        self._failures = min(self._failures + 1, 10)
        await self._sleep(wait)


def _uid(body: Body) -> str:
    return str((body.get("metadata") or {}).get("uid", ""))
