"""Interface for the API server, independent of the transport.

Objects are plain JSON. This module must not depend on the transport, or on the meaning of objects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

from strandline_operator.model.plan import ObjectKind, Resource

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scope:
    """Objects of one kind with the given labels, in one namespace or in all namespaces.

    Attributes:
        is_optional: whether a missing permission is tolerated.
    """

    resource: ObjectKind
    namespace: str | None
    selector: str = ""
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list, and the version from which a watch can continue.

    Attributes:
        is_first: whether the list starts again, which invalidates earlier pages.
    """

    items: tuple[Body, ...]
    version: str
    is_first: bool = False


class Api(Protocol):
    """Reads and writes single objects. Every failure raises an `ApiError`."""

    async def get(self, resource: ObjectKind, namespace: str | None, name: str) -> Body | None:
        """Return an object, or None if it does not exist. Nodes have no namespace."""

    async def list_all(
        self, resource: ObjectKind, namespace: str | None, selector: str = ""
    ) -> list[Body]:
        """Return objects by labels, in one namespace or in all namespaces.

        Raises:
            NotFound: if the kind is not served.
        """

    def list_pages(self, scope: Scope) -> AsyncIterator[Page]:
        """Return all objects of a scope page by page, for lists that are too large for memory."""

    async def create(
        self, resource: Resource, namespace: str, body: Body, *, is_strict: bool = False
    ) -> Body:
        """Create an object.

        Args:
            is_strict: whether unknown fields are rejected instead of silently dropped.

        Raises:
            Conflict: if an object of this name exists.
            ApiError: if a field was rejected, with status 400.
        """

    async def replace_status(
        self, resource: Resource, namespace: str, name: str, body: Body
    ) -> Body:
        """Replace an object's status. `body` contains the metadata.resourceVersion that was read.

        Raises:
            Conflict: if the object has changed since it was read.
        """

    async def patch(self, resource: Resource, namespace: str, name: str, patch: Body) -> Body:
        """Merge a patch into an object.

        Raises:
            Conflict: if the patch has a metadata.resourceVersion that differs from the object's.
        """

    async def delete(
        self, resource: Resource, namespace: str, name: str, uid: str, grace: int | None = None
    ) -> None:
        """Delete the object with this uid. Its dependents are deleted in the background.

        Raises:
            NotFound: if the object does not exist.
            Conflict: if the object of this name has another uid.
        """

    async def read_log(self, namespace: str, pod: str, container: str, lines: int) -> str:
        """Return the last lines of a container's log, or fewer if the lines are very long."""

    async def list_events(self, namespace: str, name: str) -> list[Body]:
        """Return events about objects of any kind with this name, at most one page."""

    async def push(self, url: str, body: Body, token: str) -> int:
        """Send JSON to a driver, and return the HTTP status.

        Raises:
            ApiError: if the driver is unreachable.
        """

    async def pull(self, url: str, token: str = "", release: str = "") -> object | None:
        """Return a driver's response as JSON, or None if the driver has nothing to report.

        Args:
            token: token that authenticates the caller; empty if none is required.
            release: token that permits the driver to exit after its response; empty to keep it
                running.

        Raises:
            ApiError: if the driver is unreachable, or its response is not JSON.
        """


class WatchApi(Protocol):
    """Lists and watches objects."""

    def list_pages(self, scope: Scope) -> AsyncIterator[Page]:
        """Return all objects of a scope at one version, page by page."""

    def watch(self, scope: Scope, version: str) -> AsyncIterator[Body]:
        """Return changes since a version, as Kubernetes watch events with `type` and `object`.

        The first event is synthetic, with type `OPEN` and no object: it means that the server has
        accepted the watch. The stream ends when the server ends it.

        Raises:
            Gone: if the version is no longer available.
            Unavailable: if nothing arrived for too long, not even a bookmark.
        """
