"""The condition `Published`: whether readers are led to what the last complete run has made."""

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
    """A pipeline with requirements whose first attempt runs."""
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


def test_nothing_is_told_without_requirements() -> None:
    cluster = SimulatedCluster.running()
    cluster.finish(0)
    assert find_published(cluster) is None


def test_a_run_that_meets_them_is_published_with_place_and_revision(
    cluster: SimulatedCluster,
) -> None:
    assert find_published(cluster) is None
    cluster.finish(0, latest="0001/p0003")
    published = find_published(cluster)
    assert published is not None
    assert (published.status, published.reason) == ("True", Reason.PUBLISHED)
    assert "`latest` points to 0001/p0003 on claim corpus-ledger" in published.message
    assert cluster.pass_once().pipeline is None


def test_a_run_that_hands_over_is_told_with_what_the_driver_says_of_it() -> None:
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


def test_a_run_that_does_not_is_told_with_each_requirement(cluster: SimulatedCluster) -> None:
    refuse(cluster)
    published = find_published(cluster)
    assert published is not None
    assert (published.status, published.reason) == ("False", Cause.REQUIREMENTS_NOT_MET)
    assert published.message == WHY
    summary = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert summary is not None
    assert (summary.status, summary.reason) == ("False", Cause.REQUIREMENTS_NOT_MET)
    assert len(cluster.attempts) == 1  # no retry makes rows
    assert cluster.pass_once().pipeline is None


def test_the_next_run_that_meets_them_is_published(cluster: SimulatedCluster) -> None:
    refuse(cluster)
    cluster.edit(runId="second")
    cluster.settle()
    cluster.run_next()
    cluster.finish(0, latest="0002/p0001")
    published = find_published(cluster)
    assert published is not None
    assert published.status == "True"


def test_a_later_run_that_fails_leaves_readers_where_they_are(cluster: SimulatedCluster) -> None:
    cluster.finish(0, latest="0001/p0003")
    cluster.edit(runId="second")
    cluster.settle()
    cluster.run_next()
    cluster.finish(64)
    published = find_published(cluster)
    assert published is not None
    assert published.status == "True"


def test_requirements_that_come_after_the_end_are_not_called_met() -> None:
    cluster = SimulatedCluster.running()
    cluster.finish(0)
    cluster.edit(publish=GATE)
    cluster.settle()
    assert find_published(cluster) is None


def test_without_requirements_any_more_nothing_is_told(cluster: SimulatedCluster) -> None:
    refuse(cluster)
    spec = dict(cluster.spec)
    del spec["publish"]
    cluster.pipeline["spec"] = spec
    cluster.edit()
    cluster.settle()
    assert find_published(cluster) is None
