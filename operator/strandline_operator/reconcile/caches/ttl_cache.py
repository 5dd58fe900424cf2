"""Cache with expiry times, by key.

All caches use the same clock rule: a value is valid from its read time until its expiry, and not
before its read time, because its age is unknown after the clock was set back. The module must not
depend on the values, nor on the way they are read.

Passes of a namespace often start together, especially when the operator starts, so concurrent reads
share one load.
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
    """A value with its period of validity, in seconds since the epoch."""

    value: Value
    read_at: float
    until: float


@dataclass(slots=True)
class TtlCache(Generic[Key, Value]):
    """Values by key, each valid for `seconds` unless stored with another period.

    Attributes:
        most: maximum number of keys; None for no limit, if the owner drops keys itself.
    """

    seconds: float
    most: int | None = MOST_KEYS
    _entries: dict[Key, CacheEntry[Value]] = field(default_factory=dict)
    _loads: dict[Key, asyncio.Future[Value]] = field(default_factory=dict)

    async def read(self, key: Key, now: float, load: Callable[[], Awaitable[Value]]) -> Value:
        """Return a valid value, loading it if necessary; errors of `load` are not cached."""

        async def load_and_keep() -> Value:
            return self.keep(key, await load(), now)

        entry = self.find(key, now)
        return entry.value if entry is not None else await self.share(key, load_and_keep)

    async def share(self, key: Key, load: Callable[[], Awaitable[Value]]) -> Value:
        """Return the result of a load, or of a running load of the same key; do not cache it."""
        while (under_way := self._loads.get(key)) is not None:
            # Cancelling this task must not cancel the load, which serves other tasks too.
            await asyncio.wait([under_way])
            if not under_way.cancelled():
                return under_way.result()
        loading = self._loads[key] = asyncio.get_running_loop().create_future()
        try:
            value = await load()
        except Exception as error:
            loading.set_exception(error)
            loading.exception()  # mark as retrieved, or asyncio warns if no task waits
            raise
        else:
            loading.set_result(value)
            return value
        finally:
            # A cancelled load has no result, so the first waiting task starts another.
            loading.cancel()
            if self._loads.get(key) is loading:
                del self._loads[key]

    def find(self, key: Key, now: float) -> CacheEntry[Value] | None:
        """Return the entry that is valid at the given time, or None."""
        entry = self._entries.get(key)
        return entry if entry is not None and entry.read_at <= now < entry.until else None

    def find_any(self, key: Key) -> CacheEntry[Value] | None:
        """Return the last stored entry, however old."""
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
