"""A cache in which each key's value expires.

All caches treat the clock in the same way: a value is valid from its read time until it expires. If
the clock was set back to before the read time, the value's age is unknown, so the value is invalid.
This module must not depend on the values, or on how they are read.

Passes of a namespace often start at the same time, especially when the operator starts, so
concurrent reads of a key share one load.
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
    """A value with the time from which and until which it is valid, in seconds since the epoch."""

    value: Value
    read_at: float
    until: float


@dataclass(slots=True)
class TtlCache(Generic[Key, Value]):
    """Values by key, each valid for `seconds` unless it is stored with another period.

    Attributes:
        most: maximum number of keys, or None for no limit if the owner drops keys itself.
    """

    seconds: float
    most: int | None = MOST_KEYS
    _entries: dict[Key, CacheEntry[Value]] = field(default_factory=dict)
    _loads: dict[Key, asyncio.Future[Value]] = field(default_factory=dict)

    async def read(self, key: Key, now: float, load: Callable[[], Awaitable[Value]]) -> Value:
        """Return a valid value, and load it if necessary. Errors of `load` are not cached."""

        async def load_and_keep() -> Value:
            return self.keep(key, await load(), now)

        entry = self.find(key, now)
        return entry.value if entry is not None else await self.share(key, load_and_keep)

    async def share(self, key: Key, load: Callable[[], Awaitable[Value]]) -> Value:
        """Run `load`, or wait for a running load of the same key. The result is not cached."""
        while (under_way := self._loads.get(key)) is not None:
            # Cancelling this task must not cancel the load, because other tasks may wait for it.
            await asyncio.wait([under_way])
            if not under_way.cancelled():
                return under_way.result()
        loading = self._loads[key] = asyncio.get_running_loop().create_future()
        try:
            value = await load()
        except Exception as error:
            loading.set_exception(error)
            loading.exception()  # mark as retrieved; otherwise, asyncio warns if no task waits
            raise
        else:
            loading.set_result(value)
            return value
        finally:
            # A cancelled load has no result, so the first waiting task starts another load.
            loading.cancel()
            if self._loads.get(key) is loading:
                del self._loads[key]

    def find(self, key: Key, now: float) -> CacheEntry[Value] | None:
        """Return the entry that is valid at the given time, if any."""
        entry = self._entries.get(key)
        return entry if entry is not None and entry.read_at <= now < entry.until else None

    def find_any(self, key: Key) -> CacheEntry[Value] | None:
        """Return the last stored entry, regardless of its age, or None if there is no entry."""
        return self._entries.get(key)

    def keep(self, key: Key, value: Value, now: float, seconds: float | None = None) -> Value:
        """Store a value that was read at the given time, and return it."""
        if self.most is not None and key not in self._entries and len(self._entries) >= self.most:
            self._entries.clear()
        self._entries[key] = CacheEntry(
            value, now, now + (self.seconds if seconds is None else seconds)
        )
        return value

    def drop(self, key: Key) -> None:
        """Forget the value of a key that may have changed."""
        self._entries.pop(key, None)
        self._loads.pop(key, None)  # a running load may have read the old value

    def __len__(self) -> int:
        return len(self._entries)
