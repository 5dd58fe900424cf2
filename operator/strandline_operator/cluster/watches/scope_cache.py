"""Caches a scope's objects, which come from lists, a stream, and responses to writes.

The operator's own writes are visible immediately, and older events or lists do not revert them.
Without a working stream, the cache misses changes; then it is not current and must not be read. In
Kubernetes, versions of a kind are increasing numbers. If they are not numbers, only the operator's
own writes count as newer.

This module must not depend on the meaning or the origin of an object.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from strandline_operator.cluster.api import Body

T = TypeVar("T")

# Seconds within which the stream must show a write. Otherwise, the stream is dead or far behind.
EXPECTATION_SECONDS = 10.0
_NONE = -1


@dataclass(frozen=True, slots=True)
class Observation(Generic[T]):
    """An object that was observed, or the last state of a deleted object."""

    value: T
    is_gone: bool


class Entry(NamedTuple, Generic[T]):
    """A cached object: its uid, version number, and parsed value."""

    uid: str
    version: int
    value: T


class ScopeCache(Generic[T]):
    """Objects by uid, with an index.

    Args:
        read_body: function that parses an object, given the previous value or None.
        list_keys: function that returns the index keys of a value.

    Attributes:
        version: version from which a stream continues; empty if a list is necessary.
        is_connected: whether a stream is probably connected.
    """

    def __init__(
        self,
        read_body: Callable[[Body, T | None], T],
        list_keys: Callable[[T], tuple[Hashable, ...]],
    ) -> None:
        self.version = ""
        self.is_connected = False
        self._read = read_body
        self._list_keys = list_keys
        self._entries: dict[str, Entry[T]] = {}
        self._index: dict[Hashable, dict[str, T]] = {}
        self._seen = _NONE
        self._expected: dict[str, tuple[int, float]] = {}

    def find(self, key: Hashable) -> tuple[T, ...]:
        """Return the values with an index key."""
        return tuple(self._index.get(key, {}).values())

    def is_current(self, now: float) -> bool:
        """Return True if the cache can only lack very recent changes."""
        times = (since for _, since in self._expected.values())
        # A time in the future, from before the clock was set back, also counts as late.
        is_late = any(abs(now - since) > EXPECTATION_SECONDS for since in times)
        return bool(self.version) and self.is_connected and not is_late

    def has(self, body: Body) -> bool:
        """Return True if the cache contains an object in this or a later version."""
        entry = self._entries.get(str(_read_metadata(body).get("uid", "")))
        version = _parse_version(_read_metadata(body).get("resourceVersion"))
        return entry is not None and version != _NONE and entry.version >= version

    def read(self, body: Body) -> Entry[T]:
        """Parse an object into the entry that the cache would store."""
        metadata = _read_metadata(body)
        uid = str(metadata.get("uid", ""))
        before = self._entries.get(uid)
        value = self._read(body, before.value if before is not None else None)
        return Entry(uid, _parse_version(metadata.get("resourceVersion")), value)

    def replace(self, entries: Iterable[Entry[T]], version: str) -> list[Observation[T]]:
        """Store a list of all objects. Return the changes, deletions first."""
        by_uid, number = {entry.uid: entry for entry in entries}, _parse_version(version)
        # Keep an object that was written after the list was created: it is missing but not deleted.
        missing = [
            entry
            for entry in self._entries.values()
            if entry.uid not in by_uid and entry.version <= number
        ]
        for entry in missing:
            self._remove(entry.uid)
        changes = [Observation(entry.value, is_gone=True) for entry in missing]
        changes += [change for entry in by_uid.values() for change in self._keep(entry)]
        self.version = version
        self._meet(number)
        return changes

    def apply(self, kind: str, body: Body) -> list[Observation[T]]:
        """Apply an event of the stream. Return the changes."""
        version = str(_read_metadata(body).get("resourceVersion") or "")
        changes: list[Observation[T]] = []
        if kind in {"ADDED", "MODIFIED"}:
            # Do not parse the event of an own write, whose response was parsed.
            changes = [] if self.has(body) else self._keep(self.read(body))
        elif kind == "DELETED":
            entry = self.read(body)
            self._remove(entry.uid)
            changes = [Observation(entry.value, is_gone=True)]
        # A broken stream resumes from this version, so no change is missed.
        self.version = version or self.version
        self._meet(_parse_version(version))
        return changes

    def put(self, body: Body, now: float) -> bool:
        """Store the response to a write. Return True if the cache has changed.

        If the stream has already passed this version, it has shown the write, and perhaps a later
        deletion. Otherwise, the cache expects the stream to show the write soon.
        """
        metadata = _read_metadata(body)
        version = _parse_version(metadata.get("resourceVersion"))
        if not self.version or version <= self._seen:
            return False
        self._expected[str(metadata.get("uid", ""))] = (version, now)
        return not self.has(body) and bool(self._keep(self.read(body)))

    def __len__(self) -> int:
        return len(self._entries)

    def _keep(self, entry: Entry[T]) -> list[Observation[T]]:
        before = self._entries.get(entry.uid)
        if before is not None and before.version > entry.version:
            return []
        is_same = before is not None and before.value == entry.value
        if before is not None:
            self._remove(entry.uid)
        self._entries[entry.uid] = entry
        for key in self._list_keys(entry.value):
            self._index.setdefault(key, {})[entry.uid] = entry.value
        return [] if is_same else [Observation(entry.value, is_gone=False)]

    def _remove(self, uid: str) -> None:
        entry = self._entries.pop(uid, None)
        for key in self._list_keys(entry.value) if entry is not None else ():
            uids = self._index[key]
            del uids[uid]
            if not uids:
                del self._index[key]

    def _meet(self, version: int) -> None:
        """Record up to which version the stream or a list has delivered the server's changes."""
        self._seen = max(self._seen, version)
        for uid in [uid for uid, (due, _) in self._expected.items() if due <= self._seen]:
            del self._expected[uid]


def _read_metadata(body: Body) -> Mapping[str, Any]:
    metadata = body.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _parse_version(version: object) -> int:
    return int(version) if isinstance(version, str) and version.isdecimal() else _NONE
