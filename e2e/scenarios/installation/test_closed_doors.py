"""A policy closes an attempt's ports while the run continues, on a node that enforces policies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from proving_ground.cluster.kube import Json
from proving_ground.ground import Ground
from proving_ground.installation.chart import Installation
from proving_ground.installation.enforcement import enforce_policies, invite_stranger

pytestmark = [pytest.mark.extended, pytest.mark.alone]

COUNT, EARLY = 120, 8
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.5}}
# Ports of Ray's dashboard, Ray's protocol, and the driver; then ports that only some heads open.
DOORS, OTHERS = (8265, 6379, 8780), (10001, 52365)
SECONDS = 60


@pytest.fixture
def enforcing(installation: Installation, tmp_path: Path) -> Iterator[None]:
    """Enforce policies on the node and make the operator create policies, for one test."""
    if installation.node is None:
        pytest.skip("what enforces policies is started on a node that was brought up here")
    with enforce_policies(installation.node, tmp_path / "kube-router.log"):
        installation.upgrade(attemptNetworkPolicy={"enabled": True})
        yield
        installation.upgrade()


@pytest.mark.usefixtures("enforcing")
def test_a_policy_closes_the_ports_while_the_run_goes_on(ground: Ground) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    (head,) = story.pods("head", 1)
    address = head["status"]["podIP"]
    namespaces = (ground.kube, ground.kube.within("default"))
    with ExitStack() as stack:
        strangers = [
            stack.enter_context(invite_stranger(kube, ground.runtime_image)) for kube in namespaces
        ]

        def list_reached() -> list[int]:
            return [port for each in strangers for port in each.try_doors(address, DOORS + OTHERS)]

        assert list_reached() == [], story.describe()
        # The run continues, because its own worker, the submitter, and the operator can still
        # connect.
        finished = int(story.status["progress"]["finished"])
        story.wait_for_finished(finished + EARLY)
        assert list_reached() == [], story.describe()
        # Without the policy, the ports are open: the processes listened all along.
        (policy,) = ground.kube.list_all("networkpolicies")
        ground.kube.delete("networkpolicy", policy["metadata"]["name"])
        story.wait_until(
            "both reach all ports",
            lambda: all(list_reached().count(door) == len(strangers) for door in DOORS),
            SECONDS,
        )
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
