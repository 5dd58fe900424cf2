"""Values that are good for a while, by key.

One clock rule for all of them: a value holds from the moment at which it was read until its time is
over, and not before that moment, since a clock that was set back says nothing of its age. This room
must not know what is kept, nor how it is read.
"""

from __future__ import annotations

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
        most: keys at most; None: as many as the owner does not forget.
    """

    seconds: float
    most: int | None = MOST_KEYS
    _entries: dict[Key, CacheEntry[Value]] = field(default_factory=dict)

    async def read(self, key: Key, now: float, load: Callable[[], Awaitable[Value]]) -> Value:
        """Return the value, loaded anew where none holds; what `load` raises keeps nothing."""
        entry = self.find(key, now)
        return entry.value if entry is not None else self.keep(key, await load(), now)

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

    def forget(self, is_gone: Callable[[Key], bool]) -> None:
        """Forget the values of some keys."""
        for key in [key for key in self._entries if is_gone(key)]:
            del self._entries[key]

    def __len__(self) -> int:
        return len(self._entries)
