"""Which pipeline a uid belongs to: what is made for a pipeline carries only that as a label."""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline_operator.reconcile.schedule import Key


@dataclass(slots=True)
class Roster:
    """Pipelines that were seen, by uid."""

    _keys: dict[str, Key] = field(default_factory=dict)
    _uids: dict[Key, str] = field(default_factory=dict)

    def note(self, key: Key, uid: str) -> str:
        """A pipeline was seen; returns the uid of another one that had its name, or nothing."""
        former = self._uids.get(key, "")
        self._uids[key] = uid
        self._keys[uid] = key
        if former in {"", uid}:
            return ""
        self._keys.pop(former, None)
        return former

    def find(self, uid: str) -> Key | None:
        """The pipeline of that uid; None for one that was not seen."""
        return self._keys.get(uid)

    def strike(self, key: Key) -> str:
        """A pipeline is gone; returns the uid that it had, or nothing."""
        uid = self._uids.pop(key, "")
        self._keys.pop(uid, None)
        return uid

    def __len__(self) -> int:
        return len(self._uids)
