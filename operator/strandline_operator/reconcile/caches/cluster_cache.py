"""What watches have seen of the five kinds that make up a pipeline, for passes to read.

It is read where all five are current, so that none of them stands for what is long past; where one
is not, passes ask the server. Objects of other kinds are asked for anyway. This room must not know
what is decided from what it keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from strandline_api.names import PIPELINE_LABEL, PIPELINE_UID_LABEL, format_label_value
from strandline_operator.cluster.api import Body
from strandline_operator.cluster.watches.scope_cache import ScopeCache
from strandline_operator.model.objects import Meta, Pod, RayClusterState, RayJob
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import AttemptObject, PipelineView
from strandline_operator.reconcile.caches.own_kinds import read_attempt, read_pipeline

Child = TypeVar("Child", Pod, RayJob, RayClusterState)
Keys = tuple[Hashable, ...]
NODE = "node"  # pods are found by the name of their node as well


def _key_pipeline(pipeline: PipelineView) -> Keys:
    return ((pipeline.meta.name, pipeline.meta.namespace), pipeline.meta.namespace)


def _key_attempt(attempt: AttemptObject | None) -> Keys:
    return () if attempt is None else _key_labels(attempt.meta)[:1]


def _key_child(child: Pod | RayJob | RayClusterState) -> Keys:
    return _key_labels(child.meta)


def _key_pod(pod: Pod) -> Keys:
    return (*_key_labels(pod.meta), (NODE, pod.node))


def _key_labels(meta: Meta) -> Keys:
    """Return the keys of a pipeline's uid and of its name, each as a label has it."""
    return tuple(
        (label, meta.labels.get(label, ""), meta.namespace)
        for label in (PIPELINE_UID_LABEL, PIPELINE_LABEL)
    )


def _cache_pods() -> ScopeCache[Pod]:
    def read_pod(body: Body, before: Pod | None) -> Pod:
        pod = Pod.read(body).follow(before)
        return replace(pod, meta=replace(pod.meta, version=""))

    return ScopeCache(read_pod, _key_pod)


def _cache_children(read_body: Callable[[Body], Child]) -> ScopeCache[Child]:
    def read_child(body: Body, _: Child | None) -> Child:
        child = read_body(body)
        # Passes do not read it, so an object that is equal but for it asks for none.
        return replace(child, meta=replace(child.meta, version=""))

    return ScopeCache(read_child, _key_child)


@dataclass(frozen=True, slots=True)
class NamespaceCache:
    """The five kinds in a namespace, or in all."""

    pipelines: ScopeCache[PipelineView] = field(
        default_factory=lambda: ScopeCache(read_pipeline, _key_pipeline)
    )
    attempts: ScopeCache[AttemptObject | None] = field(
        default_factory=lambda: ScopeCache(lambda body, _: read_attempt(body), _key_attempt)
    )
    rayjobs: ScopeCache[RayJob] = field(default_factory=lambda: _cache_children(RayJob.read))
    rayclusters: ScopeCache[RayClusterState] = field(
        default_factory=lambda: _cache_children(RayClusterState.read)
    )
    pods: ScopeCache[Pod] = field(default_factory=_cache_pods)

    @property
    def kinds(self) -> dict[Resource, ScopeCache[Any]]:
        """The caches by what they hold."""
        return {
            Resource.PIPELINE: self.pipelines,
            Resource.ATTEMPT: self.attempts,
            Resource.RAYJOB: self.rayjobs,
            Resource.RAYCLUSTER: self.rayclusters,
            Resource.POD: self.pods,
        }

    def find_pipeline(self, namespace: str, name: str) -> PipelineView | None:
        """Return a pipeline as it was seen last; None where none was."""
        return next(iter(self.pipelines.find((name, namespace))), None)

    def list_pipelines(self, namespace: str) -> tuple[PipelineView, ...]:
        """Return the pipelines of a namespace, in no order."""
        return self.pipelines.find(namespace)


@dataclass(frozen=True, slots=True)
class Siblings:
    """The objects of a pipeline, or of those that had its name before."""

    rayjobs: tuple[RayJob, ...]
    rayclusters: tuple[RayClusterState, ...]
    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class ClusterCache:
    """The caches of all namespaces that are watched; under None that of all of them."""

    namespaces: dict[str | None, NamespaceCache] = field(default_factory=dict)

    @classmethod
    def of(cls, namespaces: Iterable[str | None]) -> ClusterCache:
        """Return empty caches for some namespaces."""
        return cls({namespace: NamespaceCache() for namespace in namespaces})

    def find(self, namespace: str) -> NamespaceCache | None:
        """Return the cache that has a namespace, be it current or not; None where none has it."""
        return self.namespaces.get(namespace, self.namespaces.get(None))

    def find_current(self, namespace: str, now: float) -> NamespaceCache | None:
        """Return the cache of a namespace where it may stand for the server."""
        scope = self.find(namespace)
        if scope is None or not all(kind.is_current(now) for kind in scope.kinds.values()):
            return None
        return scope

    def put(self, namespace: str, resource: Resource, body: Body, now: float) -> bool:
        """Take the answer to a write of ours; return whether that has changed anything."""
        scope = self.find(namespace)
        kind = None if scope is None else scope.kinds.get(resource)
        return kind is not None and kind.put(body, now)


def find_attempts(cache: NamespaceCache, meta: Meta) -> list[AttemptObject]:
    """Return what carries a pipeline's uid and can be an attempt, in no order."""
    entries = cache.attempts.find((PIPELINE_UID_LABEL, meta.uid, meta.namespace))
    return [attempt for attempt in entries if attempt is not None]


def find_siblings(cache: NamespaceCache, meta: Meta) -> Siblings:
    """Return what carries a pipeline's uid."""
    return _pick(cache, (PIPELINE_UID_LABEL, meta.uid, meta.namespace), lambda _: True)


def find_former(cache: NamespaceCache, meta: Meta) -> Siblings:
    """Return what carries a pipeline's name and another uid."""
    key = (PIPELINE_LABEL, format_label_value(meta.name), meta.namespace)
    return _pick(cache, key, lambda child: child.labels.get(PIPELINE_UID_LABEL, "") != meta.uid)


def _pick(cache: NamespaceCache, key: Hashable, is_meant: Callable[[Meta], bool]) -> Siblings:
    def sort(children: tuple[Child, ...]) -> tuple[Child, ...]:
        # A server lists by name too, so reports are the same from a cache and from the server.
        picked = (child for child in children if is_meant(child.meta))
        return tuple(sorted(picked, key=lambda child: child.meta.name))

    return Siblings(
        sort(cache.rayjobs.find(key)),
        sort(cache.rayclusters.find(key)),
        sort(cache.pods.find(key)),
    )
