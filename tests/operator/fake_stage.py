"""A `FakeApi` as a player of KubeRay's recordings sees it.

troupe = Troupe(FakeStage(api), "team", ["s-k-head-deleted", "s-k-success"])
"""

from __future__ import annotations

from fake_api import FakeApi
from store_stage import StoreStage
from strandline_operator.model.plan import Resource


class FakeStage(StoreStage):
    """The store behind an API server; its pods stay until the player says that they have ended."""

    def __init__(self, api: FakeApi) -> None:
        api.store.patient.add(Resource.POD)
        super().__init__(api.store)
