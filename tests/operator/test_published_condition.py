"""The condition `Published`: whether `latest` points to the last complete run."""

from __future__ import annotations

from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence, read_exit
from strandline_api.status.pipeline_status import Condition
from strandline_api.status.reasons import ConditionType, Reason

WHY = "not published: rows: there are 3, but at least 10 are required"
GATE: dict[str, Any] = {"require": {"rows": {"min": 10}}}


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a pipeline with publish requirements whose first attempt is running."""
    cluster = SimulatedCluster()
    cluster.edit(publish=GATE)
    cluster.launch()
    cluster.settle()
    return cluster


def find_published(cluster: SimulatedCluster) -> Condition | None:
    return cluster.status.find_condition(ConditionType.PUBLISHED)


def refuse(cluster: SimulatedCluster) -> None:
    seen = Evidence(Cause.REQUIREMENTS_NOT_MET, WHY, "outcome")
    evidence = tuple(filter(None, (seen, read_exit(5))))
    cluster.finish(5, message=f"complete, but {WHY}", evidence=evidence, latest="0001/p0001")


def test_without_requirements_nothing_is_reported() -> None:
    cluster = SimulatedCluster.running()
    cluster.finish(0)
    assert find_published(cluster) is None


def test_a_run_that_meets_the_requirements_is_published_with_revision(
    cluster: SimulatedCluster,
) -> None:
    assert find_published(cluster) is None
    cluster.finish(0, latest="0001/p0003")
    published = find_published(cluster)
    assert published is not None
    assert (published.status, published.reason) == ("True", Reason.PUBLISHED)
    assert "`latest` points to 0001/p0003 on claim corpus-ledger" in published.message
    assert cluster.pass_once().pipeline is None


def test_a_delivery_is_reported_with_the_drivers_details() -> None:
    cluster = SimulatedCluster()
    cluster.edit(publish={"to": "delta:/data/table"})
    cluster.launch()
    cluster.settle()
    message = "complete: all 3 sources are finished; revision 4483ff30 is at /data/table"
    cluster.finish(0, message=message, latest="0001/p0003")
    published = find_published(cluster)
    assert published is not None
    assert published.message.endswith("; revision 4483ff30 is at /data/table.")
    assert cluster.pass_once().pipeline is None


def test_an_unpublished_run_is_reported_with_each_requirement(cluster: SimulatedCluster) -> None:
    refuse(cluster)
    published = find_published(cluster)
    assert published is not None
    assert (published.status, published.reason) == ("False", Cause.REQUIREMENTS_NOT_MET)
    assert published.message == WHY
    summary = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert summary is not None
    assert (summary.status, summary.reason) == ("False", Cause.REQUIREMENTS_NOT_MET)
    assert len(cluster.attempts) == 1  # a retry would not produce more rows
    assert cluster.pass_once().pipeline is None


def test_the_next_run_that_meets_the_requirements_is_published(cluster: SimulatedCluster) -> None:
    refuse(cluster)
    cluster.edit(runId="second")
    cluster.settle()
    cluster.run_next()
    cluster.finish(0, latest="0002/p0001")
    published = find_published(cluster)
    assert published is not None
    assert published.status == "True"


def test_a_later_failed_run_does_not_change_publication(cluster: SimulatedCluster) -> None:
    cluster.finish(0, latest="0001/p0003")
    cluster.edit(runId="second")
    cluster.settle()
    cluster.run_next()
    cluster.finish(64)
    published = find_published(cluster)
    assert published is not None
    assert published.status == "True"


def test_requirements_added_after_the_end_do_not_count_as_met() -> None:
    cluster = SimulatedCluster.running()
    cluster.finish(0)
    cluster.edit(publish=GATE)
    cluster.settle()
    assert find_published(cluster) is None


def test_removed_requirements_remove_the_condition(cluster: SimulatedCluster) -> None:
    refuse(cluster)
    spec = dict(cluster.spec)
    del spec["publish"]
    cluster.pipeline["spec"] = spec
    cluster.edit()
    cluster.settle()
    assert find_published(cluster) is None
