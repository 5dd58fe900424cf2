"""The operator's API server in memory, as a player of recordings sees it.

    store = FakeStore(patient={Resource.POD})
    troupe = Troupe(StoreStage(store), "team", ["s-k-head-deleted", "s-k-success"])

The player works on the store itself, so that its calls are neither counted nor made to fail. Jobs,
which the operator never looks at, are kept apart.
"""

from __future__ import annotations

from fake_store import FakeStore
from memory_stage import MemoryStage
from recordings import Json
from strandline_operator.cluster.errors import NotFound
from strandline_operator.model.plan import Resource

KINDS = {"RayJob": Resource.RAYJOB, "RayCluster": Resource.RAYCLUSTER, "Pod": Resource.POD}


class StoreStage:
    """A `Stage` of kuberay_player.py on a `FakeStore`, whose pods must be patient."""

    def __init__(self, store: FakeStore) -> None:
        self._store = store
        self._jobs = MemoryStage()

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        if kind not in KINDS:
            return await self._jobs.get(kind, namespace, name)
        return self._store.get(KINDS[kind], namespace, name)

    async def list(self, kind: str, namespace: str) -> list[Json]:
        if kind not in KINDS:
            return await self._jobs.list(kind, namespace)
        return self._store.list(KINDS[kind], namespace)

    async def create(self, kind: str, namespace: str, body: Json) -> Json:
        if kind not in KINDS:
            return await self._jobs.create(kind, namespace, body)
        return self._store.create(KINDS[kind], namespace, body)

    async def put_status(self, kind: str, namespace: str, name: str, status: Json) -> None:
        if kind not in KINDS:
            await self._jobs.put_status(kind, namespace, name, status)
        elif await self.get(kind, namespace, name) is not None:
            self._store.put_status(KINDS[kind], namespace, name, status)

    async def patch(self, kind: str, namespace: str, name: str, patch: Json) -> None:
        if kind not in KINDS:
            await self._jobs.patch(kind, namespace, name, patch)
        elif await self.get(kind, namespace, name) is not None:
            self._store.patch(KINDS[kind], namespace, name, patch)

    async def delete(self, kind: str, namespace: str, name: str, grace: int | None = None) -> None:
        if kind not in KINDS:
            await self._jobs.delete(kind, namespace, name, grace)
            return
        try:
            self._store.delete(KINDS[kind], namespace, name, grace=grace)
        except NotFound:
            return
