"""An attempt's message names the obstacle while the attempt starts, and the cause after its end."""

from __future__ import annotations

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.objects.attempt import AttemptStatus
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import Refusal

WEBHOOK = 'admission webhook "policy.example.com" denied the request: no spot nodes'
QUOTA = 'pods "corpus-1-head" is forbidden: exceeded quota: small, requested: cpu=2, used: cpu=4'


def status_of(cluster: SimulatedCluster, number: int = 1) -> AttemptStatus:
    return cluster.attempts[f"corpus-{number}"][1]


def refuse_rayjob(message: str = WEBHOOK) -> SimulatedCluster:
    """Return a cluster in which a webhook rejects each RayJob."""
    cluster = SimulatedCluster()
    refusal = Refusal(Resource.RAYJOB, "corpus-1", 403, message)
    cluster.refused[Resource.RAYJOB] = refusal
    for _ in range(3):
        cluster.settle()
        cluster.time += 15.0
    return cluster


def refuse_pods(message: str) -> SimulatedCluster:
    """Return a cluster in which KubeRay may not create the pods of the first attempt."""
    cluster = SimulatedCluster()
    cluster.launch("Initializing")
    for pod in ("head", "cpu"):
        cluster.lose_pod(pod)
    cluster.gone_pods.clear()
    cluster.fail_replicas(message)
    cluster.settle()
    return cluster


def test_an_attempt_whose_rayjob_is_rejected_names_the_webhook() -> None:
    cluster = refuse_rayjob()
    message = status_of(cluster).message
    assert message.startswith("The API server or an admission policy rejected an object")
    assert WEBHOOK in message
    condition = status_of(cluster).find_condition("Succeeded")
    assert condition is not None
    assert condition.reason == "ObjectRefused"


@pytest.mark.parametrize(
    ("message", "reason"), [(QUOTA, "QuotaUsedUp"), (WEBHOOK, "ObjectRefused")]
)
def test_an_attempt_that_starts_names_its_obstacle(message: str, reason: str) -> None:
    cluster = refuse_pods(message)
    status = status_of(cluster)
    condition = status.find_condition("Succeeded")
    assert condition is not None
    assert (status.phase, condition.reason) == ("Starting", reason)
    assert message in status.message
    assert "\n" not in status.message


def test_the_message_is_removed_with_the_obstacle() -> None:
    cluster = refuse_rayjob()
    del cluster.refused[Resource.RAYJOB]
    cluster.launch()
    cluster.settle()
    status = status_of(cluster)
    condition = status.find_condition("Succeeded")
    assert condition is not None
    assert (status.message, condition.message) == ("", "the attempt is running")
    assert cluster.pass_once().attempts == {}


def test_after_the_end_the_message_keeps_the_quota() -> None:
    cluster = refuse_pods(QUOTA)
    cluster.advance(cluster.limits.pre_running + 1)
    cluster.finish_teardown()
    assert status_of(cluster).cause == "QuotaExceeded"
    assert "exceeded quota: small" in status_of(cluster).message
    (event,) = [each for each in cluster.events if each.reason == "AttemptFailed"]
    assert event.message.startswith("attempt 1 ended with QuotaExceeded: ")
    assert "exceeded quota: small" in event.message


def test_after_the_end_the_message_keeps_the_webhook() -> None:
    cluster = refuse_pods(WEBHOOK)
    cluster.advance(cluster.limits.pre_running + 1)
    cluster.finish_teardown()
    assert status_of(cluster).cause == "SchedulingTimeout"
    assert WEBHOOK in status_of(cluster).message


@pytest.mark.parametrize(
    ("how", "cause", "begin"),
    [
        ("suspend", "Interrupted", "the pipeline was suspended"),
        ("cancel", "UserCancelled", "cancelled by annotation strandline.dev/cancel=enough"),
        ("deadline", "DeadlineExceeded", "the run took longer than deadlines.run allows: 60 s"),
    ],
)
@pytest.mark.parametrize("message", [QUOTA, WEBHOOK])
def test_an_attempt_that_is_stopped_before_it_runs_keeps_its_obstacle(
    how: str, cause: str, begin: str, message: str
) -> None:
    cluster = refuse_rayjob(message)
    if how == "cancel":
        cluster.annotate("cancel", "enough")
    cluster.edit(**({"suspend": True} if how == "suspend" else {"deadlines": {"run": "60s"}}))
    cluster.advance(0.0 if how != "deadline" else 120.0)
    cluster.finish_teardown()
    status = status_of(cluster)
    assert status.cause == cause
    assert status.message.startswith(f"{begin}; the driver had not started: ")
    assert message in status.message
    assert len([each for each in status.evidence if each.cause == cause]) == 1


def test_a_run_that_ends_before_its_next_attempt_keeps_the_obstacle() -> None:
    cluster = SimulatedCluster()
    cluster.edit(code={"configMap": "stages"}, deadlines={"run": "60s"})
    cluster.settle()
    cluster.advance(61.0)
    assert cluster.status.retry_cause == "DeadlineExceeded"
    assert cluster.status.state == (
        "the run took longer than deadlines.run allows: 60 s; the next attempt had not started: "
        "No ConfigMap with Python files has the name in `code.configMap`: ConfigMap stages"
    )
    assert cluster.status.summary == "the run took longer than deadlines.run allows: 60 s"


def test_an_attempt_that_ran_no_longer_reports_its_obstacle() -> None:
    cluster = refuse_rayjob()
    del cluster.refused[Resource.RAYJOB]
    cluster.launch()
    cluster.settle()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.finish_teardown()
    assert status_of(cluster).message == "the pipeline was suspended"


@pytest.mark.parametrize("token", ["enough", "enough; of it", "1"])
def test_canceling_an_attempt_with_an_obstacle_is_handled_once(token: str) -> None:
    cluster = refuse_rayjob()
    cluster.annotate("cancel", token)
    cluster.settle()
    cluster.finish_teardown()
    cluster.advance(60.0)
    assert cluster.status.handled is not None
    assert cluster.status.handled.cancel == token
    assert cluster.status.retry_cause == "UserCancelled"
    assert list(cluster.attempts) == ["corpus-1"]
