"""A new scheduler needs only one module and one line in the list of schedulers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fake_api import FakeApi
from kueue_replay import QueuedCluster
from made_up_scheduler import URN_LABEL, Lots, LotsKind
from operator_bodies import NAMESPACE
from source_tree import list_modules
from strandline_api.notation.times import format_time
from strandline_api.spec.namespace_defaults import RayDefaults, SpecDefaults
from strandline_operator.cluster.client import build_path
from strandline_operator.integrations import schedulers
from strandline_operator.integrations.scheduler import Scheduler
from strandline_operator.model.notices import QueueState
from strandline_operator.model.objects import Meta, RayJob
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.queues import QueueMemory

QUEUE = "kueue.x-k8s.io/queue-name"
GROWS = {"name": "cpu", "maxReplicas": 4}


@pytest.fixture(autouse=True)
def lots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the scheduler to the list."""
    monkeypatch.setattr(schedulers, "SCHEDULERS", (Lots(), *schedulers.SCHEDULERS))


def wait_in_urn(*groups: dict[str, Any], **more: Any) -> QueuedCluster:
    cluster = QueuedCluster(queue=QueueState(5.0, "the next draw is on Monday"), **more)
    cluster.pipeline["metadata"]["labels"] = {URN_LABEL: "red"}
    cluster.edit(ray={"workerGroups": list(groups or (GROWS,))})
    cluster.settle()
    cluster.bind_claim()
    cluster.settle()
    return cluster


def read_rayjob(cluster: QueuedCluster) -> dict[str, Any]:
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    return rayjob


def test_a_rayjob_gets_its_label_and_no_autoscaler() -> None:
    rayjob = read_rayjob(wait_in_urn())
    assert rayjob["metadata"]["labels"][URN_LABEL] == "red"
    assert "enableInTreeAutoscaling" not in rayjob["spec"]["rayClusterSpec"]


def test_a_pipeline_label_replaces_the_default_queue() -> None:
    defaults = SpecDefaults(ray=RayDefaults(queue_name="nightly"))
    rayjob = read_rayjob(wait_in_urn(defaults=defaults))
    assert QUEUE not in rayjob["metadata"]["labels"]


def test_a_wait_is_explained_with_the_schedulers_message() -> None:
    status = wait_in_urn().status
    wait = "attempt 1: queued in urn red since 1970-01-01T00:00:05Z: the next draw is on Monday"
    assert status.state == wait
    assert status.summary == "attempt 1: queued: the next draw is on Monday"


def test_a_rayjob_that_never_fits_is_reported() -> None:
    condition = wait_in_urn(GROWS, {"name": "gpu"}).status.find_condition("Succeeded")
    assert condition is not None
    assert condition.reason == "QueueUnfit"
    assert "Lots draws for one worker group only" in condition.message


def test_an_evicted_run_reports_the_reason_and_waits_again_at_once() -> None:
    cluster = wait_in_urn()
    rayjob = read_rayjob(cluster)
    rayjob["spec"]["suspend"] = False
    cluster.start_rayjob()
    cluster.settle()
    rayjob["spec"]["suspend"] = True
    rayjob["status"]["jobDeploymentStatus"] = "Suspending"
    about = {"kind": "RayJob", "name": "corpus-1", "uid": rayjob["metadata"]["uid"]}
    time = format_time(int(cluster.time))
    event = {"reason": "Redrawn", "message": "blue was drawn", "lastTimestamp": time}
    cluster.notices.append({**event, "involvedObject": about})
    cluster.settle()
    cluster.finish_teardown()
    assert cluster.attempts["corpus-1"][1].message == (
        "RayJob corpus-1 was suspended while its driver ran: blue was drawn"
    )
    assert read_rayjob(cluster)["metadata"]["name"] == "corpus-2"


@pytest.mark.parametrize("is_served", [True, False])
def test_scheduler_objects_are_read_if_the_cluster_serves_the_kind(*, is_served: bool) -> None:
    api = FakeApi(unserved=set() if is_served else {LotsKind.TICKET})
    ticket = {"metadata": {"name": "corpus-1"}, "text": "the next draw is on Monday"}
    api.store.create(LotsKind.TICKET, NAMESPACE, ticket)
    metadata = {"name": "corpus-1", "namespace": NAMESPACE, "labels": {URN_LABEL: "red"}}
    rayjob = RayJob.read({"metadata": metadata, "spec": {"suspend": True}})
    state = asyncio.run(QueueMemory().read(api, rayjob, 0.0))
    unserved = QueueState(message="the cluster does not serve tickets of Lots")
    assert state == (QueueState(5.0, "the next draw is on Monday") if is_served else unserved)
    assert build_path(LotsKind.TICKET, "team") == "/apis/lots.example/v1/namespaces/team/tickets"


def test_a_scheduler_without_overrides_changes_nothing() -> None:
    meta = Meta("corpus-1", NAMESPACE, "uid")
    assert not Scheduler().holds(meta)
    assert schedulers.find_holder(meta).name == "Kueue"


def test_only_the_kueue_package_contains_kueue_labels() -> None:
    modules = list_modules("operator")
    found = {module.path for module in modules if "kueue.x-k8s" in module.text}
    assert found
    assert all("/integrations/kueue/" in path for path in found), found
