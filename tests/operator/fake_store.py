"""An API server's objects in memory, with versions, uids, finalizers, owners, and a history.

This module implements the API server's own rules. `fake_api` adds calls and their failures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar, cast

from strandline_api.notation.times import format_time
from strandline_operator.cluster.errors import Conflict, Invalid, NotFound
from strandline_operator.model.plan import ObjectKind, Resource

Body = dict[str, Any]
T = TypeVar("T")
DriverAddress = tuple[ObjectKind, str, str]

# Kinds with a separate status subresource.
WITH_STATUS = frozenset(
    {Resource.PIPELINE, Resource.ATTEMPT, Resource.RAYJOB, Resource.RAYCLUSTER, Resource.POD}
)


@dataclass(frozen=True, slots=True)
class Change:
    """A change that watches report."""

    version: int
    resource: ObjectKind
    kind: str
    body: Body


@dataclass
class FakeStore:
    """Stores objects by kind, namespace, and name.

    Attributes:
        time: the clock for timestamps, in seconds since the epoch.
        patient: kinds whose deleted objects stay until `remove` is called, as pods do.
        history: all changes, oldest first.
    """

    time: float = 1_000_000.0
    patient: set[ObjectKind] = field(default_factory=set)
    objects: dict[DriverAddress, Body] = field(default_factory=dict)
    history: list[Change] = field(default_factory=list)
    _versions: Any = field(default_factory=lambda: count(1))
    _uids: Any = field(default_factory=lambda: count(1))
    version: int = 0

    def get(self, resource: ObjectKind, namespace: str, name: str) -> Body | None:
        return clone(self.objects.get((resource, namespace, name)))

    def list(
        self, resource: ObjectKind, namespace: str | None = None, selector: str = ""
    ) -> list[Body]:
        return [
            clone(body)
            for (kind, space, _), body in sorted(self.objects.items())
            if kind is resource
            and namespace in {None, space}
            and matches(selector, body["metadata"].get("labels") or {})
        ]

    def create(self, resource: ObjectKind, namespace: str, body: Body) -> Body:
        place = (resource, namespace, body["metadata"]["name"])
        if place in self.objects:
            raise Conflict(409, "AlreadyExists", f"{resource} {place[2]} already exists")
        made = clone(body)
        if resource in WITH_STATUS - {Resource.POD}:
            made.pop("status", None)
        made["metadata"] |= {
            "namespace": namespace,
            "uid": f"uid-{next(self._uids)}",
            "generation": 1,
            "creationTimestamp": format_time(int(self.time)),
        }
        self._store(place, made, "ADDED")
        return clone(made)

    def put_status(self, resource: ObjectKind, namespace: str, name: str, status: Body) -> None:
        """Write a status as another controller does, without checking versions."""
        place = (resource, namespace, name)
        self._store(place, {**self._find(place), "status": clone(status)}, "MODIFIED")

    def replace_status(self, resource: ObjectKind, namespace: str, name: str, body: Body) -> Body:
        place = (resource, namespace, name)
        found, given = self._find(place), body["metadata"]
        if given.get("resourceVersion") != found["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        if given.get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
            raise Conflict(409, "Conflict", "the uid is another one")
        stored = {**found, "status": clone(body["status"])}
        self._store(place, stored, "MODIFIED")
        return clone(stored)

    def patch(self, resource: ObjectKind, namespace: str, name: str, patch: Body) -> Body:
        place = (resource, namespace, name)
        found = self._find(place)
        version = (patch.get("metadata") or {}).get("resourceVersion")
        if version not in {None, found["metadata"]["resourceVersion"]}:
            raise Conflict(409, "Conflict", "the object has been modified")
        stored = clone(found)
        merge(stored, patch)
        is_edited = stored.get("spec") != found.get("spec")
        if is_edited and resource is Resource.ATTEMPT:
            raise Invalid(422, "Invalid", "an attempt's spec is immutable")
        stored["metadata"]["generation"] = found["metadata"].get("generation", 1) + is_edited
        self._store(place, stored, "MODIFIED")
        self._release(place)
        return clone(stored)

    def delete(
        self,
        resource: ObjectKind,
        namespace: str,
        name: str,
        uid: str = "",
        grace: int | None = None,
    ) -> None:
        place = (resource, namespace, name)
        found = self._find(place)
        if uid not in {"", found["metadata"]["uid"]}:
            raise Conflict(409, "Conflict", "the uid is another one")
        is_patient = resource in self.patient and grace != 0
        if not found["metadata"].get("finalizers") and not is_patient:
            self.remove(*place)
        elif "deletionTimestamp" not in found["metadata"]:
            marked = clone(found)
            marked["metadata"]["deletionTimestamp"] = format_time(int(self.time))
            self._store(place, marked, "MODIFIED")

    def remove(self, resource: ObjectKind, namespace: str, name: str) -> None:
        """Remove an object immediately, and delete its dependents."""
        body = self.objects.pop((resource, namespace, name))
        self._note(body, resource, "DELETED")
        uid = body["metadata"]["uid"]
        for (kind, space, owned), other in list(self.objects.items()):
            owners = {
                reference.get("uid") for reference in other["metadata"].get("ownerReferences") or ()
            }
            if uid in owners and (kind, space, owned) in self.objects:
                self.delete(kind, space, owned)

    def skip_version(self) -> int:
        """Consume a resource version without changing an object, and return the version."""
        self.version = next(self._versions)
        return self.version

    def _find(self, place: DriverAddress) -> Body:
        if place not in self.objects:
            raise NotFound(404, "NotFound", f"{place[0]} {place[2]} not found")
        return self.objects[place]

    def _release(self, place: DriverAddress) -> None:
        metadata = self.objects[place]["metadata"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            self.remove(*place)

    def _store(self, place: DriverAddress, body: Body, kind: str) -> None:
        self.objects[place] = body
        self._note(body, place[0], kind)

    def _note(self, body: Body, resource: ObjectKind, kind: str) -> None:
        self.skip_version()
        body["metadata"] = {**body["metadata"], "resourceVersion": str(self.version)}
        self.history.append(Change(self.version, resource, kind, clone(body)))


def clone(value: T) -> T:
    """Return a copy of a JSON value, several times as fast as `copy.deepcopy`."""
    copied: Any = value
    if isinstance(value, dict):
        copied = {key: clone(one) for key, one in value.items()}
    elif isinstance(value, list):
        copied = [clone(one) for one in value]
    return cast("T", copied)


def matches(selector: str, labels: dict[str, str]) -> bool:
    """Return True if labels match a selector: comma-separated `a`, `a=b`, or `a!=b`."""
    for part in filter(None, selector.split(",")):
        name, sign, value = part.partition("=")
        if name.endswith("!"):
            if labels.get(name.removesuffix("!")) == value:
                return False
            continue
        if name not in labels or (sign and labels[name] != value):
            return False
    return True


def merge(target: Body, patch: Body) -> None:
    """Apply a JSON merge patch in place."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = clone(value)
