"""Caches the objects of the five watched kinds, for passes to read.

The cache is used only while all five watches are current. Otherwise, a pass reads from the API
server. Objects of other kinds are always read from the server. This module must not depend on how
the objects are used.
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
NODE = "node"  # index of pods by node name


def _key_pipeline(pipeline: PipelineView) -> Keys:
    return ((pipeline.meta.name, pipeline.meta.namespace), pipeline.meta.namespace)


def _key_attempt(attempt: AttemptObject | None) -> Keys:
    return () if attempt is None else _key_labels(attempt.meta)[:1]


def _key_child(child: Pod | RayJob | RayClusterState) -> Keys:
    return _key_labels(child.meta)


def _key_pod(pod: Pod) -> Keys:
    return (*_key_labels(pod.meta), (NODE, pod.node))


def _key_labels(meta: Meta) -> Keys:
    """Return index keys: the uid and name of the pipeline from the object's labels."""
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
        # Passes do not use the version. Without it, unchanged objects compare equal and cause no
        # pass.
        return replace(child, meta=replace(child.meta, version=""))

    return ScopeCache(read_child, _key_child)


@dataclass(frozen=True, slots=True)
class NamespaceCache:
    """Objects of the five kinds, in one namespace or in all namespaces."""

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
        """The caches by kind."""
        return {
            Resource.PIPELINE: self.pipelines,
            Resource.ATTEMPT: self.attempts,
            Resource.RAYJOB: self.rayjobs,
            Resource.RAYCLUSTER: self.rayclusters,
            Resource.POD: self.pods,
        }

    def find_pipeline(self, namespace: str, name: str) -> PipelineView | None:
        """Return a pipeline as last observed, or None if the pipeline is unknown."""
        return next(iter(self.pipelines.find((name, namespace))), None)

    def list_pipelines(self, namespace: str) -> tuple[PipelineView, ...]:
        """Return the pipelines of a namespace, in any order."""
        return self.pipelines.find(namespace)


@dataclass(frozen=True, slots=True)
class Siblings:
    """RayJobs, RayClusters, and pods of a pipeline, or of earlier pipelines with the same name."""

    rayjobs: tuple[RayJob, ...]
    rayclusters: tuple[RayClusterState, ...]
    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class ClusterCache:
    """Caches by watched namespace. The key None means all namespaces."""

    namespaces: dict[str | None, NamespaceCache] = field(default_factory=dict)

    @classmethod
    def from_scopes(cls, namespaces: Iterable[str | None]) -> ClusterCache:
        """Return empty caches for the given namespaces."""
        return cls({namespace: NamespaceCache() for namespace in namespaces})

    def find(self, namespace: str) -> NamespaceCache | None:
        """Return the cache that covers a namespace, whether current or not, if any."""
        return self.namespaces.get(namespace, self.namespaces.get(None))

    def find_current(self, namespace: str, now: float) -> NamespaceCache | None:
        """Return the cache that covers a namespace if its watches are current; otherwise, None."""
        scope = self.find(namespace)
        if scope is None or not all(kind.is_current(now) for kind in scope.kinds.values()):
            return None
        return scope

    def put(self, namespace: str, resource: Resource, body: Body, now: float) -> bool:
        """Store the server's response to a write. Return True if the cached object has changed."""
        scope = self.find(namespace)
        kind = None if scope is None else scope.kinds.get(resource)
        return kind is not None and kind.put(body, now)


def find_attempts(cache: NamespaceCache, meta: Meta) -> list[AttemptObject]:
    """Return the valid attempts with a pipeline's uid, in any order."""
    entries = cache.attempts.find((PIPELINE_UID_LABEL, meta.uid, meta.namespace))
    return [attempt for attempt in entries if attempt is not None]


def find_siblings(cache: NamespaceCache, meta: Meta) -> Siblings:
    """Return the objects with a pipeline's uid."""
    return _pick(cache, (PIPELINE_UID_LABEL, meta.uid, meta.namespace), lambda _: True)


def find_former(cache: NamespaceCache, meta: Meta) -> Siblings:
    """Return the objects with a pipeline's name but another uid."""
    key = (PIPELINE_LABEL, format_label_value(meta.name), meta.namespace)
    return _pick(cache, key, lambda child: child.labels.get(PIPELINE_UID_LABEL, "") != meta.uid)


def _pick(cache: NamespaceCache, key: Hashable, is_meant: Callable[[Meta], bool]) -> Siblings:
    def sort(children: tuple[Child, ...]) -> tuple[Child, ...]:
        # Sort by name like the API server, so that cached and fresh reads lead to the same reports.
        picked = (child for child in children if is_meant(child.meta))
        return tuple(sorted(picked, key=lambda child: child.meta.name))

    return Siblings(
        sort(cache.rayjobs.find(key)),
        sort(cache.rayclusters.find(key)),
        sort(cache.pods.find(key)),
    )
