"""States that no recording shows, each produced by the operator's own decisions.

The names are the rows of the table in docs/gitops.md. The module must not depend on the readers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulated_cluster import SimulatedCluster
from strandline_api.schema.crd import UNSEEN
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import Refusal

Body = dict[str, Any]


def spell(cluster: SimulatedCluster) -> Body:
    """Return the pipeline as stored in an API server."""
    status = {"status": cluster.status.to_json() if cluster.has_status else UNSEEN}
    return {**cluster.pipeline, **status}


def end_first(code: int) -> SimulatedCluster:
    """Return a pipeline whose first attempt ended with this exit code, after the next decision."""
    cluster = SimulatedCluster.running()
    cluster.finish(code)
    return cluster


def apply() -> Body:
    return spell(SimulatedCluster())


def start() -> Body:
    cluster = SimulatedCluster()
    cluster.settle()
    return spell(cluster)


def lack_storage() -> Body:
    cluster = SimulatedCluster()
    cluster.edit(storage={"ledger": {"claimName": "mine"}})
    cluster.settle()
    return spell(cluster)


def lack_kuberay() -> Body:
    cluster = SimulatedCluster(has_kuberay=False)
    cluster.settle()
    return spell(cluster)


def lack_rights() -> Body:
    cluster = SimulatedCluster()
    cluster.refused[Resource.RAYJOB] = Refusal(
        Resource.RAYJOB, "corpus-1", 403, 'User "x" cannot create resource "rayjobs"'
    )
    cluster.settle()
    return spell(cluster)


def queue() -> Body:
    cluster = SimulatedCluster()
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    rayjob["spec"]["suspend"] = True
    rayjob["status"] = {"jobDeploymentStatus": "Suspended"}
    cluster.advance(3600)
    return spell(cluster)


def wait_for_another() -> Body:
    cluster = SimulatedCluster()
    other = cluster.others["raw"] = SimulatedCluster.running()
    other.pipeline["metadata"] |= {"name": "raw", "uid": "uid-raw"}
    cluster.edit(after=[{"name": "raw"}])
    cluster.settle()
    assert not cluster.attempts
    return spell(cluster)


def lack_another() -> Body:
    cluster = SimulatedCluster()
    cluster.edit(after=[{"name": "raw"}])
    cluster.settle()
    return spell(cluster)


def wait_in_a_circle() -> Body:
    cluster = SimulatedCluster()
    other = cluster.others["raw"] = SimulatedCluster()
    other.pipeline["metadata"] |= {"name": "raw", "uid": "uid-raw"}
    other.edit(after=[{"name": "corpus"}])
    cluster.edit(after=[{"name": "raw"}])
    cluster.settle()
    return spell(cluster)


def run() -> Body:
    return spell(SimulatedCluster.running())


def wait() -> Body:
    return spell(end_first(1))


def start_again() -> Body:
    cluster = end_first(1)
    cluster.advance((cluster.status.next_attempt_time or 0.0) - cluster.time)
    assert len(cluster.attempts) == 2
    return spell(cluster)


def hold_back() -> Body:
    cluster = SimulatedCluster()
    cluster.edit(suspend=True)
    cluster.settle()
    assert not cluster.attempts
    return spell(cluster)


def suspend() -> Body:
    cluster = SimulatedCluster.running()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.finish_teardown()
    return spell(cluster)


def suspend_at_work() -> Body:
    cluster = SimulatedCluster.running()
    cluster.edit(suspend=True)
    cluster.settle()
    assert cluster.list_of(Resource.POD)
    return spell(cluster)


def succeed() -> Body:
    return spell(end_first(0))


def fail() -> Body:
    return spell(end_first(64))


def refuse_publishing() -> Body:
    cluster = SimulatedCluster()
    cluster.edit(publish={"require": {"rows": {"min": 10}}})
    cluster.launch()
    cluster.settle()
    cluster.finish(5)
    return spell(cluster)


def publish() -> Body:
    cluster = SimulatedCluster()
    cluster.edit(publish={"require": {"rows": {"min": 10}}})
    cluster.launch()
    cluster.settle()
    cluster.finish(0, latest="0001/p0001")
    return spell(cluster)


def exceed_quota() -> Body:
    cluster = SimulatedCluster()
    cluster.refused[Resource.RAYJOB] = Refusal(
        Resource.RAYJOB, "corpus-1", 403, "exceeded quota: pods"
    )
    cluster.settle()
    cluster.advance(10)
    return spell(cluster)


def cancel() -> Body:
    cluster = SimulatedCluster.running()
    cluster.annotate("cancel", "enough")
    cluster.settle()
    cluster.finish_teardown()
    return spell(cluster)


def spoil() -> Body:
    cluster = SimulatedCluster()
    cluster.edit(sink={"use": "NO"})
    cluster.settle()
    return spell(cluster)


def edit() -> Body:
    cluster = end_first(0)
    cluster.edit(runId="second")
    return spell(cluster)


def start_second_run() -> Body:
    cluster = end_first(0)
    cluster.edit(runId="second")
    cluster.settle()
    return spell(cluster)


def delete() -> Body:
    cluster = SimulatedCluster.running()
    cluster.pipeline["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    cluster.settle(3)
    assert cluster.pipeline["metadata"]["finalizers"]
    return spell(cluster)


STATES: dict[str, Callable[[], Body]] = {
    "The pipeline was applied, and the operator has not processed it": apply,
    "The first attempt starts": start,
    "The claim is missing": lack_storage,
    "KubeRay is missing": lack_kuberay,
    "The operator lacks permissions": lack_rights,
    "The first attempt waits in a queue of Kueue": queue,
    "The pipeline waits for another pipeline": wait_for_another,
    "A pipeline named in `after` is missing": lack_another,
    "Two pipelines wait for each other": wait_in_a_circle,
    "An attempt runs": run,
    "An attempt has failed, and the next attempt is scheduled": wait,
    "The next attempt starts": start_again,
    "The pipeline was applied with `suspend: true`": hold_back,
    "`suspend` is true": suspend,
    "`suspend` is true, and the attempt has not ended": suspend_at_work,
    "The run has succeeded": succeed,
    "The run has failed without further retries": fail,
    "The run has succeeded and is published": publish,
    "The run is complete, but does not meet `publish.require`": refuse_publishing,
    "A quota blocks the run": exceed_quota,
    "The run was cancelled": cancel,
    "The spec is invalid": spoil,
    "The spec was edited, and the operator has not processed it": edit,
    "The run of a new `runId` starts": start_second_run,
    "The pipeline was deleted, and its pods have not ended": delete,
}
