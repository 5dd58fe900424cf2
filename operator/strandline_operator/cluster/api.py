"""Interface for the API server, independent of the transport.

Objects are plain JSON. The module must not depend on the transport, nor on the meaning of objects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

from strandline_operator.model.plan import ObjectKind, Resource

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scope:
    """Objects of a kind with given labels, in one namespace or in all namespaces.

    Attributes:
        is_optional: whether a missing permission is tolerated.
    """

    resource: ObjectKind
    namespace: str | None
    selector: str = ""
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list, and the version from which a watch continues.

    Attributes:
        is_first: whether the list restarts; earlier pages are then invalid.
    """

    items: tuple[Body, ...]
    version: str
    is_first: bool = False


class Api(Protocol):
    """Reads and writes of single objects. Every failure raises an `ApiError`."""

    async def get(self, resource: ObjectKind, namespace: str | None, name: str) -> Body | None:
        """Return an object, or None if it does not exist. Nodes have no namespace."""

    async def list_all(
        self, resource: ObjectKind, namespace: str | None, selector: str = ""
    ) -> list[Body]:
        """Return objects by labels, in one namespace or in all namespaces.

        Raises:
            NotFound: the kind is not served.
        """

    def list_pages(self, scope: Scope) -> AsyncIterator[Page]:
        """Return all objects of a scope page by page, for lists too long for memory."""

    async def create(
        self, resource: Resource, namespace: str, body: Body, *, is_strict: bool = False
    ) -> Body:
        """Create an object.

        Args:
            is_strict: whether unknown fields are rejected instead of silently dropped.

        Raises:
            Conflict: an object of the same name exists.
            ApiError: a field was rejected, with the status 400.
        """

    async def replace_status(
        self, resource: Resource, namespace: str, name: str, body: Body
    ) -> Body:
        """Replace an object's status; `body` contains the metadata.resourceVersion that was read.

        Raises:
            Conflict: the object has changed since.
        """

    async def patch(self, resource: Resource, namespace: str, name: str, patch: Body) -> Body:
        """Merge a patch into an object.

        Raises:
            Conflict: the patch has a metadata.resourceVersion that differs from the object's.
        """

    async def delete(
        self, resource: Resource, namespace: str, name: str, uid: str, grace: int | None = None
    ) -> None:
        """Delete the object with this uid, and its dependents in the background.

        Raises:
            NotFound: the object does not exist.
            Conflict: the existing object has another uid.
        """

    async def read_log(self, namespace: str, pod: str, container: str, lines: int) -> str:
        """Return the last lines of a container's log, or fewer if they are very long."""

    async def list_events(self, namespace: str, name: str) -> list[Body]:
        """Return events about objects of a name, of any kind; at most one page."""

    async def push(self, url: str, body: Body, token: str) -> int:
        """Send JSON to a driver; return the HTTP status.

        Raises:
            ApiError: the driver is unreachable.
        """

    async def pull(self, url: str, token: str = "", release: str = "") -> object | None:
        """Return a driver's response as JSON; None if it has nothing to report.

        Args:
            token: authenticates the caller; empty if not required.
            release: permits the driver to exit after its response; empty if it must not exit.

        Raises:
            ApiError: the driver is unreachable, or its response is not JSON.
        """


class WatchApi(Protocol):
    """Lists with watches."""

    def list_pages(self, scope: Scope) -> AsyncIterator[Page]:
        """Return all objects of a scope at one version, page by page."""

    def watch(self, scope: Scope, version: str) -> AsyncIterator[Body]:
        """Return changes since a version, as Kubernetes watch events: `type` and `object`.

        The first event is synthetic, with the type `OPEN` and no object: the server has accepted
        the watch. The stream ends when the server ends it.

        Raises:
            Gone: the version is no longer available.
            Unavailable: nothing arrived for too long, not even a bookmark.
        """
