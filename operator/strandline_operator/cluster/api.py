"""What the operator asks of an API server, whatever carries it there.

Objects are plain JSON. This room must not know how a request travels, nor what an object means.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

from strandline_operator.model.plan import ObjectKind, Resource

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scope:
    """Objects of a kind with some labels, of one namespace or of all.

    Attributes:
        is_optional: a follower does without, where that is not allowed.
    """

    resource: ObjectKind
    namespace: str | None
    selector: str = ""
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Some objects of a list, and the version from which a watch goes on.

    Attributes:
        is_first: those of pages before are listed anew.
    """

    items: tuple[Body, ...]
    version: str
    is_first: bool = False


class Api(Protocol):
    """Reads and writes of single objects. Whatever fails raises an `ApiError`."""

    async def get(self, resource: ObjectKind, namespace: str | None, name: str) -> Body | None:
        """Return an object; None where there is none. Nodes are in no namespace."""

    async def list_all(
        self, resource: ObjectKind, namespace: str | None, selector: str = ""
    ) -> list[Body]:
        """Return objects with some labels, of one namespace or of all.

        Raises:
            NotFound: the kind is not served.
        """

    def list_pages(self, scope: Scope) -> AsyncIterator[Page]:
        """Return all objects of a scope, some at a time, for lists too long for memory."""

    async def create(
        self, resource: Resource, namespace: str, body: Body, *, is_strict: bool = False
    ) -> Body:
        """Make an object.

        Args:
            is_strict: refuse a field that the kind does not have; else it is left out unseen.

        Raises:
            Conflict: there is one of that name.
            ApiError: a field is refused, with the status 400.
        """

    async def replace_status(
        self, resource: Resource, namespace: str, name: str, body: Body
    ) -> Body:
        """Replace an object's status; `body` has metadata.resourceVersion as it was read.

        Raises:
            Conflict: it has changed since.
        """

    async def patch(self, resource: Resource, namespace: str, name: str, patch: Body) -> Body:
        """Merge a patch into an object.

        Raises:
            Conflict: the patch has a metadata.resourceVersion, and the object another one.
        """

    async def delete(
        self, resource: Resource, namespace: str, name: str, uid: str, grace: int | None = None
    ) -> None:
        """Delete the object of this very uid, and in the background what it owns.

        Raises:
            NotFound: there is none.
            Conflict: one of the same name has another uid.
        """

    async def read_log(self, namespace: str, pod: str, container: str, lines: int) -> str:
        """Return the last lines of a container's log; fewer where they are very long."""

    async def list_events(self, namespace: str, name: str) -> list[Body]:
        """Return events about objects of a name, of any kind: a page of them at most."""

    async def push(self, url: str, body: Body, token: str) -> int:
        """Send a driver something as JSON; return the status of its answer.

        Raises:
            ApiError: it can't be reached.
        """

    async def pull(self, url: str, token: str = "", release: str = "") -> object | None:
        """Return what a driver answers, as JSON; None where it has nothing to say.

        Args:
            token: by which it knows the caller; empty: it need not.
            release: by which it knows that it may go once it has answered; empty: it may not.

        Raises:
            ApiError: it can't be reached, or what it says is no JSON.
        """


class WatchApi(Protocol):
    """Lists that are followed by watches."""

    def list_pages(self, scope: Scope) -> AsyncIterator[Page]:
        """Return all objects of a scope as they stood at one version, some at a time."""

    def watch(self, scope: Scope, version: str) -> AsyncIterator[Body]:
        """Return changes since a version, as Kubernetes' watch events: `type` and `object`.

        The first of them is ours, has the type `OPEN` and no object: the server lets us in. It ends
        where the server ends it.

        Raises:
            Gone: the version is no longer kept.
            Unavailable: nothing was heard for too long, not even a bookmark.
        """
