"""Objects of a scope as a server last gave them: in a list, in a stream, in answers to writes.

What was written is known at once, and neither an older event nor an older list takes it back. What
goes by unseen, while no stream is there or since one has died unnoticed, makes the cache anything
but current, and then it must not be read. Versions of one kind are numbers that grow, as
Kubernetes has it; where they are something else only what was written comes later.

This room must not know what an object means, nor how it came here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from strandline_operator.cluster.api import Body

T = TypeVar("T")

# A stream that has not shown by then what was written has died, or its server is far behind.
EXPECTATION_SECONDS = 10.0
_NONE = -1


@dataclass(frozen=True, slots=True)
class Observation(Generic[T]):
    """An object as it was seen; the last of it where it is gone."""

    value: T
    is_gone: bool


class Entry(NamedTuple, Generic[T]):
    """An object: its uid, the number of its version, and what is read of it."""

    uid: str
    version: int
    value: T


class ScopeCache(Generic[T]):
    """Objects by uid, and by keys under which they are looked for.

    Args:
        read: reads an object; gets the value that there was before, or None.
        list_keys: keys under which a value is found.

    Attributes:
        version: from which a stream goes on; empty: all has to be listed.
        is_connected: a stream follows it, as far as is known.
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
        """Return the values under a key."""
        return tuple(self._index.get(key, {}).values())

    def is_current(self, now: float) -> bool:
        """Return whether it has all but what happened a moment ago."""
        times = (since for _, since in self._expected.values())
        # A time ahead of now was written by a clock that was set back since.
        is_late = any(abs(now - since) > EXPECTATION_SECONDS for since in times)
        return bool(self.version) and self.is_connected and not is_late

    def has(self, body: Body) -> bool:
        """Return whether an object is kept as it is here, or as it was later."""
        entry = self._entries.get(str(_read_metadata(body).get("uid", "")))
        version = _parse_version(_read_metadata(body).get("resourceVersion"))
        return entry is not None and version != _NONE and entry.version >= version

    def read(self, body: Body) -> Entry[T]:
        """Return an object as it would be kept."""
        metadata = _read_metadata(body)
        uid = str(metadata.get("uid", ""))
        before = self._entries.get(uid)
        value = self._read(body, before.value if before is not None else None)
        return Entry(uid, _parse_version(metadata.get("resourceVersion")), value)

    def replace(self, entries: Iterable[Entry[T]], version: str) -> list[Observation[T]]:
        """Take a list of all objects; return what has changed, and first what is gone."""
        by_uid, number = {entry.uid: entry for entry in entries}, _parse_version(version)
        # An object that was written after the list was made is not missing from the list.
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
        """Take an event of the stream; return what has changed by it."""
        version = str(_read_metadata(body).get("resourceVersion") or "")
        changes: list[Observation[T]] = []
        if kind in {"ADDED", "MODIFIED"}:
            changes = self._keep(self.read(body))
        elif kind == "DELETED":
            entry = self.read(body)
            self._remove(entry.uid)
            changes = [Observation(entry.value, is_gone=True)]
        # A stream that breaks goes on from here, so that what happens meanwhile is seen too.
        self.version = version or self.version
        self._meet(_parse_version(version))
        return changes

    def put(self, body: Body, now: float) -> bool:
        """Take the answer to a write; return whether that has changed anything.

        A stream that has come further has shown it already, and perhaps what came after it: that
        the object is gone. Otherwise the stream is expected to show it.
        """
        entry = self.read(body)
        if not self.version or entry.version <= self._seen:
            return False
        self._expected[entry.uid] = (entry.version, now)
        return bool(self._keep(entry))

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
        """Note how far the server has shown what happened."""
        self._seen = max(self._seen, version)
        for uid in [uid for uid, (due, _) in self._expected.items() if due <= self._seen]:
            del self._expected[uid]


def _read_metadata(body: Body) -> Mapping[str, Any]:
    metadata = body.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _parse_version(version: object) -> int:
    return int(version) if isinstance(version, str) and version.isdecimal() else _NONE
