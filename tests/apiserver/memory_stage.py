"""The least of an API server that a player needs, in memory: finalizers, grace, uids."""

from __future__ import annotations

import copy
import itertools
from typing import Any

from recordings import Json

NOW = "2026-11-21T12:00:00Z"


class MemoryStage:
    """Keeps objects by kind, namespace and name, and a diary of all calls that changed one."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.diary: list[str] = []
        self._uids = itertools.count(1)

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        return copy.deepcopy(self.objects.get((kind, namespace, name)))

    async def list(self, kind: str, namespace: str) -> list[Json]:
        found = [body for place, body in self.objects.items() if place[:2] == (kind, namespace)]
        return copy.deepcopy(found)

    async def create(self, kind: str, namespace: str, body: Json) -> Json:
        place = (kind, namespace, body["metadata"]["name"])
        if place in self.objects:
            raise FileExistsError(f"{kind} {place[2]} exists")
        self._note("create", place)
        made = copy.deepcopy(body)
        made["metadata"] |= {"namespace": namespace, "uid": f"uid-{next(self._uids)}"}
        self.objects[place] = made
        return copy.deepcopy(made)

    async def put_status(self, kind: str, namespace: str, name: str, status: Json) -> None:
        found = self.objects.get((kind, namespace, name))
        if found is not None:
            self._note("status", (kind, namespace, name))
            found["status"] = copy.deepcopy(status)

    async def patch(self, kind: str, namespace: str, name: str, patch: Json) -> None:
        found = self.objects.get((kind, namespace, name))
        if found is not None:
            self._note("patch", (kind, namespace, name))
            merge(found, patch)
            self._drop_released((kind, namespace, name))

    async def delete(self, kind: str, namespace: str, name: str, grace: int | None = None) -> None:
        place = (kind, namespace, name)
        found = self.objects.get(place)
        if found is None:
            return
        self._note("delete", place)
        is_patient = kind == "Pod" and grace != 0
        is_ended = found.get("status", {}).get("phase") in {"Succeeded", "Failed"}
        if found["metadata"].get("finalizers") or (is_patient and not is_ended):
            found["metadata"].setdefault("deletionTimestamp", NOW)
            return
        del self.objects[place]

    def _drop_released(self, place: tuple[str, str, str]) -> None:
        metadata = self.objects[place]["metadata"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            del self.objects[place]

    def _note(self, verb: str, place: tuple[str, str, str]) -> None:
        self.diary.append(f"{verb} {place[0]}/{place[2]}")


def merge(target: dict[str, Any], patch: Json) -> None:
    """Apply a JSON merge patch in place."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)
