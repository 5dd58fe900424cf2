"""The memory of recently read claims, across many pipelines."""

from __future__ import annotations

import asyncio
from typing import Any

from fake_api import FakeApi
from operator_bodies import NAMESPACE
from strandline_operator.cluster.access import Access
from strandline_operator.model.objects import VolumeClaim
from strandline_operator.reconcile.caches.claims import ClaimMemory


class CountedUid(str):
    """A uid that counts comparisons."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedUid.compared += 1
        return super().__eq__(other)


def render_claim(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"},
        "status": {"phase": "Bound"},
    }


def read(memory: ClaimMemory, pipeline: str, name: str) -> VolumeClaim | None:
    """Read a claim from the memory. The server has no claim."""
    access = Access(FakeApi(), NAMESPACE)
    return asyncio.run(memory.read(access, pipeline, name, 1.0, may_be_old=True))


def test_only_claims_of_deleted_pipelines_are_forgotten() -> None:
    memory = ClaimMemory()
    for pipeline, name in (("a", "ledger"), ("a", "output"), ("b", "ledger")):
        memory.put(pipeline, render_claim(name), 0.0)
    memory.forget("a")
    memory.forget("never")
    assert (read(memory, "a", "ledger"), read(memory, "a", "output")) == (None, None)
    assert read(memory, "b", "ledger") is not None


def test_forgetting_a_pipeline_does_not_scan_all_others() -> None:
    memory, uids = ClaimMemory(), [CountedUid(number) for number in range(500)]
    for uid in uids:
        memory.put(uid, render_claim("ledger"), 0.0)
    CountedUid.compared = 0
    memory.forget(uids[250])
    assert CountedUid.compared <= 10
