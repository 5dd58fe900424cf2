"""The operator's main service: watches, a queue of passes, and a periodic sweep.

All observations only request passes. This module must not depend on kopf, or on the contents of a
pass.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from strandline_api.names import select_all
from strandline_api.status.enums import LineageState
from strandline_operator.cluster.api import Api, Body, Scope, WatchApi
from strandline_operator.cluster.errors import ApiError, Forbidden, NotFound
from strandline_operator.cluster.watches.scope_cache import Observation, ScopeCache
from strandline_operator.cluster.watches.watch import Watch
from strandline_operator.decide.evidence.rayjobs import TERMINAL
from strandline_operator.metrics.numbers import Numbers
from strandline_operator.model.nodes.marks import NodeMarks
from strandline_operator.model.objects import Meta, Pod, RayClusterState, RayJob
from strandline_operator.model.plan import AttemptEnd, EventDraft, ObjectKind, Resource
from strandline_operator.model.view import AttemptObject, PipelineView, Refusal
from strandline_operator.reconcile.caches.cluster_cache import NODE, ClusterCache
from strandline_operator.reconcile.caches.namespaces.defaults import NamespaceDefaults
from strandline_operator.reconcile.caches.namespaces.refused import RefusedNamespaces
from strandline_operator.reconcile.caches.nodes import NodeMemory
from strandline_operator.reconcile.caches.pods import PodMemory, PodOwner, find_owner
from strandline_operator.reconcile.drivers.dialogue import DriverTalk
from strandline_operator.reconcile.drivers.poller import Poller
from strandline_operator.reconcile.enact import render_event_about
from strandline_operator.reconcile.observe import PassInputs
from strandline_operator.reconcile.passes import Decide, Passes
from strandline_operator.reconcile.scheduling.dependents import Dependents
from strandline_operator.reconcile.scheduling.gate import DispatchGate
from strandline_operator.reconcile.scheduling.queue import Queue
from strandline_operator.reconcile.scheduling.schedule import Key, SeenPipelines
from strandline_operator.settings import Settings

Item = TypeVar("Item")

_LOGGER = logging.getLogger(__name__)
# Seconds between sweeps, which find pipelines whose events a watch stream has missed.
SWEEP_SECONDS = 300.0
_START_WAIT = 5.0
# Number and interval in seconds of checks for complete lists at the start, half a minute in total.
# Kinds without a list are then read from the server.
_MOST_LOOKS, _LOOK_SECONDS = 300, 0.1
# Seconds without progress after which a pass, the queue, or a watch counts as stuck. Every request
# times out after half a minute.
STUCK_PASS = 180.0
STUCK_QUEUE = 120.0
STUCK_WATCH = 300.0


class Server(Api, WatchApi, Protocol):
    """An API server with all operations that the operator uses."""


@dataclass(frozen=True, slots=True)
class World:
    """Clock, randomness, and server.

    Attributes:
        clock: function that returns the current time in seconds since the epoch.
        draw: function that returns a random number from [0, 1).
    """

    server: Server
    clock: Callable[[], float]
    draw: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Service:
    """The running operator. Call `start` first and `stop` at the end.

    Args:
        report_end: function that receives ended attempts, or None if they are not reported.
        find_report: function that returns the result of a report; see `PassInputs`.
    """

    def __init__(
        self,
        settings: Settings,
        world: World,
        decide: Decide,
        numbers: Numbers,
        report_end: Callable[[AttemptEnd], None] | None = None,
        token_key: bytes = b"",
        find_report: Callable[[str, int], LineageState | None] = lambda _, __: None,
    ) -> None:
        self._settings = settings
        self._world = world
        self._numbers = numbers
        self._pods = PodMemory()
        self._nodes = NodeMemory(is_allowed=settings.read_nodes)
        self._cache = ClusterCache.from_scopes(settings.watched_namespaces)
        self._seen_pipelines = SeenPipelines()
        self._dependents = Dependents()
        limits = replace(
            settings.limits, reports_lineage=report_end is not None, token_key=token_key
        )
        drivers = DriverTalk(limits)
        inputs = PassInputs(
            pods=self._pods,
            drivers=drivers,
            defaults=NamespaceDefaults(settings.defaults_config_map),
            layer=settings.retry_defaults,
            cache=self._cache,
            nodes=self._nodes,
            blind=self._list_blind,
            is_checked=limits.preflight,
            find_report=find_report,
        )
        passes = Passes(
            api=world.server,
            decide=decide,
            limits=limits,
            inputs=inputs,
            seen_pipelines=self._seen_pipelines,
            gate=DispatchGate(settings.retries_per_minute),
            counter=numbers,
            clock=world.clock,
            draw=world.draw,
            report_end=report_end or (lambda _: None),
        )
        self.queue = Queue(
            passes.run, concurrency=settings.concurrency, clock=world.clock, watcher=numbers
        )
        self.poller = Poller(
            drivers, world.server, self._enqueue, clock=world.clock, sleep=world.sleep
        )
        self._refused = RefusedNamespaces(numbers.note_refused)
        self.watches: list[Watch[Any]] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Wait until Strandline's kinds are served, request a pass for each pipeline, and start."""
        while not await self._try_sweep():
            await self._world.sleep(_START_WAIT)
        self.watches = list(self._make_watches())
        for watch in self.watches:
            self._spawn(watch.run(), f"watch of {watch.scope.resource}")
        await self._wait_for_lists()
        self._spawn(self._sweep_forever(), "sweep")
        self._spawn(self.queue.run(), "queue")
        self._spawn(self.poller.run(), "poller")
        schedule, clock = self.queue.schedule, self._world.clock
        self._numbers.watch_queue(lambda: schedule.depth, lambda: schedule.lag(clock()))
        for resource in {watch.scope.resource for watch in self.watches}:
            self._numbers.watch_age(resource.value, self._make_age(resource))

    async def stop(self) -> None:
        """Stop starting passes, wait for running passes, and stop watching."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if not await self.queue.drain(self._settings.shutdown_grace):
            _LOGGER.warning("some passes were interrupted; the next start resumes them")

    def see_pipeline(self, body: Body) -> None:
        """Handle an event about a created, changed, or deleted pipeline."""
        meta = Meta.read(body)
        key = Key(meta.namespace, meta.name)
        if self._seen_pipelines.find(meta.uid) is None and not meta.is_deleting:
            self._seen_pipelines.note(key, meta.uid)
        if not self._is_shown(Resource.PIPELINE, body):
            self.queue.enqueue(key)
        for other in self._dependents.note(key, body):
            self.queue.enqueue(other)

    def see_attempt(self, body: Body) -> None:
        """Handle an event about a created, changed, or deleted attempt."""
        spec = body.get("spec")
        name = spec.get("pipeline") if isinstance(spec, dict) else None
        if isinstance(name, str) and not self._is_shown(Resource.ATTEMPT, body):
            meta = Meta.read(body)
            self.queue.enqueue(Key(meta.namespace, name))

    def _is_shown(self, resource: Resource, body: Body) -> bool:
        """Return True if a watch has already reported an object and requested its pass."""
        cache = self._cache.find(Meta.read(body).namespace)
        return cache is not None and cache.kinds[resource].has(body)

    def report_health(self) -> dict[str, float]:
        """Return the result of `check`, if the service has started.

        Raises:
            RuntimeError: if the service has not started, or is stuck.
        """
        if not self._tasks:
            raise RuntimeError("the operator has not started yet")
        return self.check()

    def check(self) -> dict[str, float]:
        """Return numbers that show whether the service makes progress.

        Raises:
            RuntimeError: if the service is stuck. The message names the stuck part.
        """
        now, schedule = self._world.clock(), self.queue.schedule
        for task in self._tasks:
            if task.done():
                raise RuntimeError(f"the {task.get_name()} has ended")
        figures = {
            "silent_pass_seconds": schedule.longest_silence(now),
            "queue_lag_seconds": min(schedule.lag(now), now - self.queue.last_sign),
            "watch_age_seconds": max(
                (now - watch.last_event for watch in self.watches), default=0.0
            ),
        }
        bounds = (STUCK_PASS, STUCK_QUEUE, STUCK_WATCH)
        for (name, figure), limit in zip(figures.items(), bounds, strict=True):
            if figure > limit:
                raise RuntimeError(f"{name} is {figure:.0f}, more than {limit:.0f}")
        figures["namespaces_refused"] = len(self._refused)
        return {name: round(figure, 3) for name, figure in figures.items()}

    def _make_watches(self) -> Iterator[Watch[Any]]:
        for namespace, cache in self._cache.namespaces.items():
            yield self._watch(Resource.PIPELINE, namespace, cache.pipelines, self._see_kept)
            yield self._watch(Resource.ATTEMPT, namespace, cache.attempts, self._see_kept_attempt)
            yield self._watch(Resource.RAYJOB, namespace, cache.rayjobs, self._see_rayjob)
            yield self._watch(Resource.RAYCLUSTER, namespace, cache.rayclusters, self._see_child)
            yield self._watch(Resource.POD, namespace, cache.pods, self._see_pod)
        if self._settings.read_nodes:
            yield self._watch(Resource.NODE, None, self._nodes.watched, self._see_node)

    def _watch(
        self,
        resource: Resource,
        namespace: str | None,
        cache: ScopeCache[Item],
        notify: Callable[[Observation[Item]], None],
    ) -> Watch[Item]:
        is_foreign = resource in {Resource.RAYJOB, Resource.RAYCLUSTER}
        is_expected = not is_foreign or self._settings.kuberay_expected
        is_expected = is_expected and resource is not Resource.NODE
        is_unlabelled = resource in {Resource.PIPELINE, Resource.NODE}
        selector = "" if is_unlabelled else select_all()
        return Watch(
            self._world.server,
            # If nodes can't be watched, they are read individually, or not at all.
            Scope(resource, namespace, selector, is_optional=resource is Resource.NODE),
            cache=cache,
            notify=notify,
            clock=self._world.clock,
            sleep=self._world.sleep,
            absence=logging.WARNING if is_expected else logging.DEBUG,
        )

    async def _wait_for_lists(self) -> None:
        """Wait until the watches have listed their objects, so that first passes use caches."""
        for _ in range(_MOST_LOOKS):
            if all(watch.has_begun for watch in self.watches):
                return
            await self._world.sleep(_LOOK_SECONDS)

    def _see_kept(self, observation: Observation[PipelineView]) -> None:
        meta = observation.value.meta
        self.queue.enqueue(Key(meta.namespace, meta.name))

    def _see_kept_attempt(self, observation: Observation[AttemptObject | None]) -> None:
        attempt = observation.value
        if attempt is not None:
            self.queue.enqueue(Key(attempt.meta.namespace, attempt.spec.pipeline))

    def _see_pod(self, observation: Observation[Pod]) -> None:
        self._enqueue_owner(self._pods.note(observation))

    def _see_node(self, observation: Observation[NodeMarks]) -> None:
        """Handle a node with changed marks, and request passes for pipelines with pods on it."""
        self._nodes.note(observation)
        for cache in self._cache.namespaces.values():
            for pod in cache.pods.find((NODE, observation.value.name)):
                self._enqueue_owner(find_owner(pod.meta))

    def _see_rayjob(self, observation: Observation[RayJob]) -> None:
        rayjob = observation.value
        # Handle an end first: users and later attempts wait for it, and evidence disappears.
        is_end = rayjob.deployment in TERMINAL and not rayjob.meta.is_deleting
        self._enqueue_owner(find_owner(rayjob.meta), is_urgent=is_end)

    def _see_child(self, observation: Observation[RayClusterState]) -> None:
        self._enqueue_owner(find_owner(observation.value.meta))

    def _enqueue_owner(self, owner: PodOwner, *, is_urgent: bool = False) -> None:
        key = self._seen_pipelines.find(owner.uid)
        if key is not None and key.namespace == owner.namespace:
            self.queue.enqueue(key, is_urgent=is_urgent)

    def _enqueue(self, uid: str) -> None:
        key = self._seen_pipelines.find(uid)
        if key is not None:
            self.queue.enqueue(key)

    async def _try_sweep(self) -> bool:
        """Request a pass for each pipeline that no watch has reported.

        Returns:
            Whether any namespace could be listed. A namespace that rejects the request must not
            block other namespaces.
        """
        is_any_listed = False
        try:
            for namespace in self._settings.watched_namespaces:
                is_any_listed |= await self._sweep(namespace)
        except ApiError as error:
            _LOGGER.warning("%s", _explain(error))
            return False
        return is_any_listed

    async def _sweep(self, namespace: str | None) -> bool:
        """Sweep one namespace, or all namespaces. Return True if listing was permitted."""
        try:
            async for page in self._world.server.list_pages(Scope(Resource.PIPELINE, namespace)):
                for body in page.items:
                    if self._seen_pipelines.find(Meta.read(body).uid) is None:
                        self.see_pipeline(body)
        except Forbidden as error:
            if namespace is None:
                raise
            await self._post(self._refused.note(namespace, error))
            return False
        self._refused.clear(namespace or "")
        return True

    async def _post(self, event: EventDraft | None) -> None:
        """Create an event about the operator's own service account, if the account is known."""
        home, _, name = self._settings.account.partition("/")
        if event is None or not name:
            return
        now = self._world.clock()
        kind = {"apiVersion": "v1", "kind": "ServiceAccount"}
        body = render_event_about(kind, event, Meta(name, home, ""), str(now), now)
        try:
            await self._world.server.create(Resource.EVENT, home, body)
        except ApiError as error:
            _LOGGER.info("event %s was not created: %s", event.reason, error)

    async def _sweep_forever(self) -> None:
        while True:
            await self._world.sleep(SWEEP_SECONDS)
            await self._try_sweep()

    def _list_blind(self, namespace: str) -> tuple[Refusal, ...]:
        """Return the watches of a namespace that lack permission."""
        return tuple(
            Refusal(
                watch.scope.resource.value, "", watch.refused.status, watch.refused.message, "watch"
            )
            for watch in self.watches
            if watch.refused is not None and not watch.scope.is_optional
            if watch.scope.namespace in {None, namespace}
        )

    def _make_age(self, resource: ObjectKind) -> Callable[[], float]:
        def age() -> float:
            last_events = [
                watch.last_event for watch in self.watches if watch.scope.resource is resource
            ]
            return self._world.clock() - min(last_events)

        return age

    def _spawn(self, work: Awaitable[None], name: str) -> None:
        task = asyncio.ensure_future(work)
        task.set_name(name)
        task.add_done_callback(_report)
        self._tasks.append(task)


def _explain(error: ApiError) -> str:
    if isinstance(error, NotFound):
        return "the cluster has no resource type CurationPipeline: apply the files in crds/"
    if isinstance(error, Forbidden):
        return f"the operator lacks permissions: {error.message}"
    return f"pipelines could not be listed: {error}"


def _report(task: asyncio.Future[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _LOGGER.critical("work has stopped", exc_info=task.exception())
