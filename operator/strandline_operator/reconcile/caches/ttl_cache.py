"""Values that are good for a while, by key.

One clock rule for all of them: a value holds from the moment at which it was read until its time is
over, and not before that moment, since a clock that was set back says nothing of its age. This room
must not know what is kept, nor how it is read.

Passes of a namespace begin together, above all where an operator starts: a read waits for the load
that is under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

MOST_KEYS = 1000
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class CacheEntry(NamedTuple, Generic[Value]):
    """A value with the times between which it holds, in seconds since the epoch."""

    value: Value
    read_at: float
    until: float


@dataclass(slots=True)
class TtlCache(Generic[Key, Value]):
    """Values by key, each for `seconds` unless it is kept for another time.

    Attributes:
        most: keys at most; None: as many as the owner does not drop.
    """

    seconds: float
    most: int | None = MOST_KEYS
    _entries: dict[Key, CacheEntry[Value]] = field(default_factory=dict)
    _loads: dict[Key, asyncio.Future[Value]] = field(default_factory=dict)

    async def read(self, key: Key, now: float, load: Callable[[], Awaitable[Value]]) -> Value:
        """Return the value, loaded anew where none holds; what `load` raises keeps nothing."""

        async def load_and_keep() -> Value:
            return self.keep(key, await load(), now)

        entry = self.find(key, now)
        return entry.value if entry is not None else await self.share(key, load_and_keep)

    async def share(self, key: Key, load: Callable[[], Awaitable[Value]]) -> Value:
        """Return what a load gives, or the one of this key that is under way; it keeps nothing."""
        while (under_way := self._loads.get(key)) is not None:
            # Waiting does not cancel it with this task: it serves others.
            await asyncio.wait([under_way])
            if not under_way.cancelled():
                return under_way.result()
        loading = self._loads[key] = asyncio.get_running_loop().create_future()
        try:
            value = await load()
        except Exception as error:
            loading.set_exception(error)
            loading.exception()  # or the loop complains where no task waits
            raise
        else:
            loading.set_result(value)
            return value
        finally:
            # A cancelled load has given nothing, and the first task that waits begins another.
            loading.cancel()
            if self._loads.get(key) is loading:
                del self._loads[key]

    def find(self, key: Key, now: float) -> CacheEntry[Value] | None:
        """Return what holds at that time."""
        entry = self._entries.get(key)
        return entry if entry is not None and entry.read_at <= now < entry.until else None

    def find_any(self, key: Key) -> CacheEntry[Value] | None:
        """Return what was kept last, however old it is."""
        return self._entries.get(key)

    def keep(self, key: Key, value: Value, now: float, seconds: float | None = None) -> Value:
        """Keep a value that was read at that time, and return it."""
        if self.most is not None and key not in self._entries and len(self._entries) >= self.most:
            self._entries.clear()
        self._entries[key] = CacheEntry(
            value, now, now + (self.seconds if seconds is None else seconds)
        )
        return value

    def drop(self, key: Key) -> None:
        """Forget the value of a key that may have changed."""
        self._entries.pop(key, None)
        self._loads.pop(key, None)  # a load under way may have read before the change

    def __len__(self) -> int:
        return len(self._entries)
