"""Delivers a store's changes to an operator's caches, as late and as partially as a test requires.

feed = CacheFeed(store, PodMemory())
feed.follow()                    # all kinds, up to now
feed.stream(Resource.POD, 3)     # three events of one kind
feed.list(Resource.POD)          # relist after a lost stream
feed.cache                       # the cache that passes read
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from fake_store import FakeStore
from strandline_operator.cluster.watches.scope_cache import Observation
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.cluster_cache import ClusterCache
from strandline_operator.reconcile.caches.pods import PodMemory


class CacheFeed:
    """The state of an operator's watches. `shown` counts the delivered changes by kind."""

    def __init__(self, store: FakeStore, pods: PodMemory) -> None:
        self.cache = ClusterCache.from_scopes([None])
        self.shown: Counter[Resource] = Counter()
        self._store = store
        self._pods = pods
        self._kinds = self.cache.namespaces[None].kinds

    @property
    def kinds(self) -> tuple[Resource, ...]:
        return tuple(self._kinds)

    def follow(self, silent: Resource | None = None) -> None:
        """Deliver all changes, except those of a silent kind. List any kind not listed before."""
        for resource, kind in self._kinds.items():
            if not kind.version:
                self.list(resource)
            elif resource is not silent:
                self.stream(resource)

    def list(self, resource: Resource) -> None:
        kind = self._kinds[resource]
        entries = [kind.read(body) for body in self._store.list(resource)]
        kind.is_connected = True
        self._note(resource, kind.replace(entries, str(self._store.version)))
        self.shown[resource] = len(self._store.history)

    def stream(self, resource: Resource, most: int | None = None) -> None:
        """Deliver the pending events of a kind, at most `most` if given."""
        kind = self._kinds[resource]
        if not kind.version:
            return
        left = len(self._store.history) if most is None else most
        while self.shown[resource] < len(self._store.history):
            change = self._store.history[self.shown[resource]]
            if change.resource is resource:
                if not left:
                    return
                left -= 1
                self._note(resource, kind.apply(change.kind, change.body))
            self.shown[resource] += 1

    def disconnect(self) -> None:
        for kind in self._kinds.values():
            kind.is_connected = False

    def _note(self, resource: Resource, changes: Iterable[Observation[Any]]) -> None:
        for change in changes if resource is Resource.POD else ():
            self._pods.note(change)
