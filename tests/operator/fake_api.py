"""An API server in memory that fails on demand.

    api = FakeApi()
    api.store.create(Resource.PIPELINE, "team", body)     # made by the test, not counted
    await api.get(Resource.PIPELINE, "team", "corpus")    # as the operator calls it, counted
    api.before.append(hook)                               # called before each call, may raise

A hook gets the `Call`. The hook may raise an `ApiError` to fail the call, raise `KilledError` to
kill the operator at this point, or return an awaitable to delay the call. `after` hooks run after
the call.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fake_store import Body, Change, FakeStore, clone, matches
from strandline_operator.cluster.api import Page, Scope
from strandline_operator.cluster.errors import Gone, Invalid, NotFound, Unavailable
from strandline_operator.model.plan import ObjectKind, Resource


class KilledError(BaseException):
    """The operator was killed. No handler may catch this."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call as hooks receive it. `number` counts from 1."""

    number: int
    verb: str
    resource: ObjectKind | None
    name: str = ""

    @property
    def is_write(self) -> bool:
        return self.verb in {"create", "status", "patch", "delete"}


Hook = Callable[[Call], Awaitable[None] | None]


@dataclass
class FakeApi:
    """`Api` and `WatchApi` over a store.

    Attributes:
        unserved: kinds that the server does not serve.
        logs: text printed by a pod, by namespace and name.
        drivers: JSON that a driver returns, by URL; None for an empty answer.
        tokens, releases: token and release of the last request to a URL.
        answers: HTTP status that a driver returns for a push, by URL.
        pushed: pushes that drivers received, as URL, body, and token.
        is_stalled: streams stay open but deliver no events.
        nodes: nodes that differ from a healthy node, by name; None for a missing node.
        unknown: fields of an object's spec that the server does not recognize.
    """

    store: FakeStore = field(default_factory=FakeStore)
    unserved: set[ObjectKind] = field(default_factory=set)
    logs: dict[tuple[str, str], str] = field(default_factory=dict)
    drivers: dict[str, Any] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    releases: dict[str, str] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    pushed: list[tuple[str, Body, str]] = field(default_factory=list)
    nodes: dict[str, Body | None] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    before: list[Hook] = field(default_factory=list)
    after: list[Hook] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    is_stalled: bool = False
    forgotten: int = 0
    _epoch: int = 0

    @property
    def writes(self) -> list[Call]:
        """Return the calls that change objects, in order."""
        return [call for call in self.calls if call.is_write]

    async def get(self, resource: ObjectKind, namespace: str | None, name: str) -> Body | None:
        async with self._call("get", resource, name):
            if resource is Resource.NODE:
                return self.nodes.get(name, spell_node(name))
            assert namespace is not None
            return None if resource in self.unserved else self.store.get(resource, namespace, name)

    async def list_all(
        self, resource: ObjectKind, namespace: str | None, selector: str = ""
    ) -> list[Body]:
        async with self._call("list", resource):
            self._check(resource)
            return self.store.list(resource, namespace, selector)

    async def create(
        self, resource: ObjectKind, namespace: str, body: Body, *, is_strict: bool = False
    ) -> Body:
        async with self._call("create", resource, body["metadata"]["name"]):
            self._check(resource)
            return self.store.create(resource, namespace, self._prune(body, is_strict=is_strict))

    async def replace_status(
        self, resource: ObjectKind, namespace: str, name: str, body: Body
    ) -> Body:
        async with self._call("status", resource, name):
            return self.store.replace_status(resource, namespace, name, body)

    async def patch(self, resource: ObjectKind, namespace: str, name: str, patch: Body) -> Body:
        async with self._call("patch", resource, name):
            return self.store.patch(resource, namespace, name, patch)

    async def delete(
        self, resource: ObjectKind, namespace: str, name: str, uid: str, grace: int | None = None
    ) -> None:
        async with self._call("delete", resource, name):
            self.store.delete(resource, namespace, name, uid, grace)

    async def read_log(self, namespace: str, pod: str, container: str, lines: int) -> str:
        async with self._call("log", Resource.POD, pod):
            text = self.logs.get((namespace, pod))
            if text is None:
                raise NotFound(404, "NotFound", f"pods {pod} not found")
            return "\n".join(text.splitlines()[-lines:])

    async def list_events(self, namespace: str, name: str) -> list[Body]:
        async with self._call("events", Resource.EVENT, name):
            events = self.store.list(Resource.EVENT, namespace)
            return [event for event in events if event["involvedObject"]["name"] == name]

    async def push(self, url: str, body: Body, token: str) -> int:
        async with self._call("push", None, url):
            if url not in self.answers:
                raise Unavailable(0, "", "no answer")
            self.pushed.append((url, clone(body), token))
            return self.answers[url]

    async def pull(self, url: str, token: str = "", release: str = "") -> object | None:
        async with self._call("pull", None, url):
            self.tokens[url], self.releases[url] = token, release
            if url not in self.drivers:
                raise Unavailable(0, "", "no answer")
            answer: object = clone(self.drivers[url])
            return answer

    async def list_pages(self, scope: Scope) -> AsyncIterator[Page]:
        async with self._call("list", scope.resource):
            self._check(scope.resource)
            found = self.store.list(scope.resource, scope.namespace, scope.selector)
            if scope.resource is Resource.NODE:
                found = [body for body in self.nodes.values() if body is not None]
        middle, version = (len(found) + 1) // 2, str(self.store.version)
        yield Page(tuple(found[:middle]), version)
        if found[middle:]:
            yield Page(tuple(found[middle:]), version)

    async def watch(self, scope: Scope, version: str) -> AsyncIterator[Body]:
        async with self._call("watch", scope.resource):
            self._check(scope.resource)
        seen, epoch = int(version), self._epoch
        if seen < self.forgotten:
            raise Gone(410, "Expired", "the version is too old")
        yield {"type": "OPEN"}
        while epoch == self._epoch:
            late = [] if self.is_stalled else self.store.history
            for change in [one for one in late if one.version > seen]:
                seen = change.version
                if self._concerns(scope, change.resource, change.body):
                    yield {"type": change.kind, "object": clone(change.body)}
            await asyncio.sleep(0.001)

    def put_node(self, body: Body) -> None:
        """Add or change a node, and report the change to watches."""
        self._show_node("MODIFIED" if body["metadata"]["name"] in self.nodes else "ADDED", body)

    def remove_node(self, name: str) -> None:
        """Delete a node's object, and report the deletion to watches."""
        body = self.nodes[name]
        assert body is not None
        self._show_node("DELETED", body)
        self.nodes[name] = None

    def _show_node(self, kind: str, body: Body) -> None:
        version = self.store.skip_version()
        metadata = {"namespace": "", **body["metadata"], "resourceVersion": str(version)}
        shown = self.nodes[metadata["name"]] = {**body, "metadata": metadata}
        self.store.history.append(Change(version, Resource.NODE, kind, clone(shown)))

    def drop_watches(self) -> None:
        """End every stream, as a server does at the end of a watch timeout."""
        self._epoch += 1

    def forget_history(self) -> None:
        """Forget the history, so no watch can resume from an earlier version."""
        self.forgotten = self.store.skip_version()
        self.store.history.clear()
        self.drop_watches()

    def fork(self) -> FakeApi:
        """Return a copy of everything except the hooks and calls."""
        return FakeApi(
            copy.deepcopy(self.store),
            set(self.unserved),
            dict(self.logs),
            copy.deepcopy(self.drivers),
            nodes=dict(self.nodes),
            unknown=set(self.unknown),
        )

    def _check(self, resource: ObjectKind) -> None:
        if resource in self.unserved:
            raise NotFound(404, "", "404 page not found")

    def _prune(self, body: Body, *, is_strict: bool) -> Body:
        """Drop unknown fields, or reject the body in strict mode, as a server does."""
        spec = body.get("spec", {})
        unknown = sorted(self.unknown & spec.keys())
        if unknown and is_strict:
            message = f'strict decoding error: unknown field "spec.{unknown[0]}"'
            raise Invalid(400, "BadRequest", message)
        if not unknown:
            return body
        return {**body, "spec": {name: spec[name] for name in spec.keys() - self.unknown}}

    @staticmethod
    def _concerns(scope: Scope, resource: ObjectKind, body: Body) -> bool:
        metadata = body["metadata"]
        return (
            resource is scope.resource
            and scope.namespace in {None, metadata["namespace"]}
            and matches(scope.selector, metadata.get("labels") or {})
        )

    @asynccontextmanager
    async def _call(
        self, verb: str, resource: ObjectKind | None, name: str = ""
    ) -> AsyncIterator[None]:
        call = Call(len(self.calls) + 1, verb, resource, name)
        self.calls.append(call)
        await _run(self.before, call)
        yield
        await _run(self.after, call)


def spell_node(name: str, ready: str = "True", taint: str = "", since: str = "") -> Body:
    """Return a node whose kubelet does or does not report."""
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": since}
    taints = [{"key": taint, "effect": "NoExecute"}] if taint else []
    return {
        "metadata": {"name": name},
        "spec": {"taints": taints},
        "status": {"conditions": [condition]},
    }


async def _run(hooks: list[Hook], call: Call) -> None:
    for hook in list(hooks):
        answer = hook(call)
        if inspect.isawaitable(answer):
            await answer


def kill_before(number: int, verb: Callable[[Call], bool] = lambda _: True) -> Hook:
    """Return a hook that kills the operator before the n-th matching call."""
    seen = 0

    def hook(call: Call) -> None:
        nonlocal seen
        seen += verb(call)
        if verb(call) and seen == number:
            raise KilledError(f"before {call}")

    return hook


async def until(condition: Callable[[], bool]) -> None:
    """Poll a condition until it holds, because no event announces the change."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is awaited is no event
            await asyncio.sleep(0.001)
