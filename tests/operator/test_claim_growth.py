"""A ledger's claim grows with the spec if the cluster allows growth. A refusal is reported once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulated_cluster import SimulatedCluster
from strandline_api.status.pipeline_status import Condition
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.model.plan import Grow, Resource
from strandline_operator.model.view import Refusal

CLAIM = "corpus-ledger"
WORDS = "only dynamically provisioned pvc can be resized"


def make(size: str | None = "10Gi") -> SimulatedCluster:
    """Return a pipeline whose first attempt runs on a claim of this size."""
    cluster = SimulatedCluster()
    if size is not None:
        edit(cluster, size)
    cluster.launch()
    cluster.settle()
    return cluster


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a pipeline whose first attempt runs on a claim of 10Gi."""
    return make()


def edit(cluster: SimulatedCluster, size: str | int) -> None:
    cluster.edit(storage={"ledger": {"size": size}})


def find_claim(cluster: SimulatedCluster) -> dict[str, Any]:
    return cluster.objects[Resource.CLAIM, CLAIM]


def read_size(cluster: SimulatedCluster) -> str:
    size: str = find_claim(cluster)["spec"]["resources"]["requests"]["storage"]
    return size


def list_asked(cluster: SimulatedCluster) -> list[str]:
    actions = [action for plan in cluster.plans for action in plan.actions]
    return [action.size for action in actions if isinstance(action, Grow)]


def read(cluster: SimulatedCluster) -> Condition:
    found = cluster.status.find_condition(ConditionType.STORAGE_READY)
    assert found is not None
    return found


def refuse(cluster: SimulatedCluster) -> None:
    cluster.refused["growth"] = Refusal(Resource.CLAIM, CLAIM, 403, WORDS)


def test_a_larger_size_is_requested_while_an_attempt_is_running(cluster: SimulatedCluster) -> None:
    edit(cluster, "20Gi")
    cluster.settle()
    assert (read_size(cluster), list_asked(cluster)) == ("20Gi", ["20Gi"])
    assert list(cluster.attempts) == ["corpus-1"]


@pytest.mark.parametrize("size", ["10Gi", "10240Mi", 10 * 2**30])
def test_the_same_size_in_another_unit_requests_nothing(
    cluster: SimulatedCluster, size: str | int
) -> None:
    edit(cluster, size)
    cluster.settle()
    assert (read_size(cluster), list_asked(cluster)) == ("10Gi", [])


def test_a_smaller_size_is_reported_and_not_requested(cluster: SimulatedCluster) -> None:
    edit(cluster, "5Gi")
    cluster.settle()
    assert list_asked(cluster) == []
    assert (read(cluster).status, read(cluster).reason) == ("True", Reason.CLAIM_BOUND)
    assert (
        read(cluster).message == f"claim {CLAIM} has a volume of 10Gi, which cannot shrink to 5Gi"
    )


def test_a_claim_enlarged_by_a_user_keeps_its_size() -> None:
    cluster = make(None)
    find_claim(cluster)["spec"]["resources"]["requests"]["storage"] = "50Gi"
    cluster.settle()
    assert list_asked(cluster) == []
    assert read(cluster).message == f"claim {CLAIM} has a volume"


def test_a_foreign_claim_of_the_same_name_is_not_changed(
    cluster: SimulatedCluster,
) -> None:
    find_claim(cluster)["metadata"]["labels"] = {}
    edit(cluster, "20Gi")
    cluster.settle()
    assert list_asked(cluster) == []


def test_a_growth_in_progress_is_reported(cluster: SimulatedCluster) -> None:
    edit(cluster, "20Gi")
    cluster.settle()
    waits = {"type": "FileSystemResizePending", "status": "True", "message": "Waiting for a pod"}
    status = {"phase": "Bound", "capacity": {"storage": "10Gi"}, "conditions": [waits]}
    find_claim(cluster)["status"] = status
    cluster.settle()
    way = "which grows from 10Gi to 20Gi: Waiting for a pod"
    assert read(cluster).message == f"claim {CLAIM} has a volume, {way}"
    find_claim(cluster)["status"] = {"phase": "Bound", "capacity": {"storage": "20Gi"}}
    cluster.settle()
    assert read(cluster).message == f"claim {CLAIM} has a volume"


def test_a_refused_growth_is_reported_once_and_delays_no_run(cluster: SimulatedCluster) -> None:
    refuse(cluster)
    edit(cluster, "20Gi")
    for _ in range(4):
        cluster.advance(60)
    assert (read_size(cluster), list_asked(cluster)) == ("10Gi", ["20Gi"])
    assert (read(cluster).status, read(cluster).reason) == ("False", Reason.CLAIM_NOT_GROWN)
    assert f"{CLAIM}: 10Gi instead of 20Gi: {WORDS}" in read(cluster).message
    summary = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert summary is not None
    assert summary.reason == Reason.RUNNING
    cluster.finish(75)
    cluster.run_next()
    assert list(cluster.attempts) == ["corpus-1", "corpus-2"]
    assert list_asked(cluster) == ["20Gi"]


def test_the_next_edit_requests_growth_again(cluster: SimulatedCluster) -> None:
    refuse(cluster)
    edit(cluster, "20Gi")
    cluster.advance(60)
    cluster.refused.clear()
    cluster.advance(60)
    assert list_asked(cluster) == ["20Gi"]
    edit(cluster, "30Gi")
    cluster.settle()
    assert (list_asked(cluster), read_size(cluster)) == (["20Gi", "30Gi"], "30Gi")
    assert read(cluster).reason == Reason.CLAIM_BOUND


def test_a_full_volume_grows_before_a_manual_retry(cluster: SimulatedCluster) -> None:
    cluster.finish(73, message="no space is left on the volume")
    assert read(cluster).reason == Reason.CLAIM_FULL
    edit(cluster, "20Gi")
    cluster.settle()
    assert read_size(cluster) == "20Gi"


def test_an_unbound_claim_is_not_changed() -> None:
    cluster = SimulatedCluster()
    edit(cluster, "10Gi")
    cluster.settle()
    edit(cluster, "20Gi")
    cluster.settle()
    assert list_asked(cluster) == []
    cluster.bind_claim()
    cluster.settle()
    assert read_size(cluster) == "20Gi"


@given(st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=8))
def test_law_a_claim_never_shrinks_and_each_edit_requests_growth_once(
    edits: list[tuple[int, bool]],
) -> None:
    cluster = make()
    largest = 10
    for size, is_refused in edits:
        cluster.refused.clear()
        if is_refused:
            refuse(cluster)
        edit(cluster, f"{size}Gi")
        for _ in range(3):
            cluster.advance(60)
        largest = largest if is_refused else max(largest, size)
        assert read_size(cluster) == f"{largest}Gi"
    assert len(list_asked(cluster)) <= len(edits)
    assert list(cluster.attempts) == ["corpus-1"]
