"""An API server in memory, as a stage for players of recordings.

    store = FakeStore()
    troupe = Troupe(StoreStage(store), "team", ["s-k-head-deleted", "s-k-success"])

The player changes the store itself, so no call of the player is counted or fails. Pods remain until
the player ends them. Jobs have a store of their own, because the operator never reads them.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count

from fake_store import FakeStore
from recordings import Json
from strandline_operator.cluster.errors import NotFound
from strandline_operator.model.plan import Resource

KINDS = {
    "Job": Resource.JOB,
    "Pod": Resource.POD,
    "RayCluster": Resource.RAYCLUSTER,
    "RayJob": Resource.RAYJOB,
}
FIRST_JOB = 1_000_000  # uids of Jobs must differ from the uids of all other objects


class StoreStage:
    """A `Stage` of kuberay_player.py on a `FakeStore`."""

    def __init__(self, store: FakeStore) -> None:
        store.patient.add(Resource.POD)
        self.store = store
        self.jobs = FakeStore(_uids=count(FIRST_JOB))

    def _find(self, kind: str) -> FakeStore:
        return self.jobs if kind == "Job" else self.store

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        return self._find(kind).get(KINDS[kind], namespace, name)

    async def list(self, kind: str, namespace: str) -> list[Json]:
        return self._find(kind).list(KINDS[kind], namespace)

    async def create(self, kind: str, namespace: str, body: Json) -> Json:
        return self._find(kind).create(KINDS[kind], namespace, body)

    async def put_status(self, kind: str, namespace: str, name: str, status: Json) -> None:
        with suppress(NotFound):
            self._find(kind).put_status(KINDS[kind], namespace, name, status)

    async def patch(self, kind: str, namespace: str, name: str, patch: Json) -> None:
        with suppress(NotFound):
            self._find(kind).patch(KINDS[kind], namespace, name, patch)

    async def delete(self, kind: str, namespace: str, name: str, grace: int | None = None) -> None:
        with suppress(NotFound):
            self._find(kind).delete(KINDS[kind], namespace, name, grace=grace)
