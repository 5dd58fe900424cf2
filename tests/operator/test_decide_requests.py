"""A request by annotation stays pending until the operator acts on it, in any state of the run."""

from __future__ import annotations

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.spec.policy import RetryPolicy
from strandline_api.status.enums import PipelinePhase, Trigger
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.handled_tokens import HandledTokens
from strandline_api.status.reasons import ConditionType
from strandline_operator.model.plan import Resource


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a pipeline whose first attempt is running."""
    return SimulatedCluster.running()


def break_down(cluster: SimulatedCluster, code: int = 1) -> None:
    """End the attempt while its pods still exist."""
    cluster.outcome = DriverOutcome(exit_code=code)
    cluster.settle()
    assert not cluster.attempts["corpus-1"][1].is_frozen


def handled(cluster: SimulatedCluster) -> tuple[str, str]:
    tokens = cluster.status.handled
    assert tokens is not None
    return tokens.retry, tokens.cancel


def find_end(cluster: SimulatedCluster) -> tuple[str, str]:
    found = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert found is not None
    return found.status, found.reason


def is_going(cluster: SimulatedCluster) -> bool:
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    return "deletionTimestamp" not in rayjob["metadata"]


@pytest.mark.parametrize("code", [1, 75])
def test_a_cancel_during_the_teardown_ends_the_run(cluster: SimulatedCluster, code: int) -> None:
    break_down(cluster, code)
    cluster.annotate("cancel", "enough")
    cluster.settle()
    assert handled(cluster) == ("", "")
    cluster.finish_teardown()
    assert find_end(cluster) == ("False", "UserCancelled")
    assert handled(cluster) == ("", "enough")
    cluster.advance(100_000)
    assert len(cluster.attempts) == 1
    assert cluster.attempts["corpus-1"][1].cause is not Cause.USER_CANCELLED


def test_a_cancel_during_the_teardown_of_a_suspension_ends_the_run(
    cluster: SimulatedCluster,
) -> None:
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.annotate("cancel", "enough")
    cluster.settle()
    cluster.finish_teardown()
    cluster.edit(suspend=False)
    cluster.advance(1000)
    assert find_end(cluster) == ("False", "UserCancelled")
    assert len(cluster.attempts) == 1


def test_a_cancel_after_completion_changes_nothing(cluster: SimulatedCluster) -> None:
    break_down(cluster, 0)
    cluster.annotate("cancel", "too late")
    cluster.settle()
    cluster.finish_teardown()
    assert find_end(cluster) == ("True", "Completed")
    assert handled(cluster) == ("", "too late")
    cluster.edit(runId="second")
    cluster.settle()
    assert len(cluster.attempts) == 2  # the request applied to the current run only


def test_a_retry_during_the_teardown_starts_an_attempt_at_once(cluster: SimulatedCluster) -> None:
    break_down(cluster, 64)
    cluster.annotate("retry", "one")
    cluster.settle()
    assert handled(cluster) == ("", "")
    cluster.finish_teardown()
    assert handled(cluster) == ("one", "")
    assert cluster.attempts["corpus-2"][0]["spec"]["trigger"] == Trigger.MANUAL
    cluster.start_rayjob()
    cluster.finish()
    cluster.advance(1000)
    assert len(cluster.attempts) == 2


def test_a_cancel_takes_precedence_over_a_simultaneous_retry(cluster: SimulatedCluster) -> None:
    break_down(cluster)
    cluster.annotate("retry", "one")
    cluster.annotate("cancel", "enough")
    cluster.settle()
    cluster.finish_teardown()
    cluster.advance(100_000)
    assert handled(cluster) == ("one", "enough")
    assert len(cluster.attempts) == 1


def test_a_retry_requested_after_a_cancel_is_carried_out(cluster: SimulatedCluster) -> None:
    cluster.annotate("cancel", "enough")
    cluster.settle()
    assert handled(cluster) == ("", "enough")
    cluster.annotate("retry", "after all")
    cluster.settle()
    cluster.finish_teardown()
    assert cluster.attempts["corpus-2"][0]["spec"]["trigger"] == Trigger.MANUAL


@pytest.mark.parametrize(
    "user",
    [
        "alice@example.com",
        "system:serviceaccount:team:ci",
        "arn:aws:sts::123456789012:assumed-role/admin/alice",
        "oidc:3f1c2a9e-7d44-4c0e-9f5e-0a1b2c3d4e5f",
    ],
)
def test_the_name_in_a_request_is_in_events_statuses_and_evidence(
    cluster: SimulatedCluster, user: str
) -> None:
    retry, cancel = (f"2026-11-29T13:0{n}:00.123456Z by {user}" for n in (1, 2))
    break_down(cluster, 64)
    cluster.finish_teardown()
    cluster.annotate("retry", retry)
    cluster.settle()
    asked = [each for each in cluster.events if each.reason == EventReason.RETRY_REQUESTED]
    words = f"requested by annotation strandline.dev/retry={retry}"
    assert [each.message for each in asked] == [words]
    cluster.annotate("cancel", cancel)
    cluster.settle()
    cluster.finish_teardown()
    assert handled(cluster) == (retry, cancel)
    told = [record.message for record in cluster.attempts["corpus-2"][1].evidence]
    assert f"cancelled by annotation strandline.dev/cancel={cancel}" in told


def test_a_cancel_whose_handling_was_lost_does_not_reach_the_next_run(
    cluster: SimulatedCluster,
) -> None:
    """The user requests another run, and the operator is killed between two status writes."""
    cluster.annotate("cancel", "enough")
    cluster.settle()
    cluster.status = cluster.status.model_copy(update={"handled": HandledTokens()})
    cluster.edit(runId="second")
    cluster.settle()
    cluster.finish_teardown()
    assert cluster.attempts["corpus-1"][1].cause is Cause.USER_CANCELLED
    assert cluster.attempts["corpus-2"][0]["spec"]["run"] == "second"


def test_a_withdrawn_request_may_be_repeated_with_the_same_token(cluster: SimulatedCluster) -> None:
    break_down(cluster, 64)
    cluster.annotate("retry", "one")
    cluster.settle()
    cluster.pipeline["metadata"]["annotations"].clear()
    cluster.settle()
    cluster.finish_teardown()
    assert len(cluster.attempts) == 1
    cluster.annotate("retry", "one")
    cluster.settle()
    assert len(cluster.attempts) == 2


def test_a_running_attempt_is_cancelled_though_its_spec_is_invalid(
    cluster: SimulatedCluster,
) -> None:
    cluster.edit(sink={"use": "NO"})
    cluster.settle()
    assert is_going(cluster)
    cluster.annotate("cancel", "enough")
    cluster.settle()
    assert not is_going(cluster)
    assert handled(cluster) == ("", "enough")
    cluster.finish_teardown()
    assert cluster.attempts["corpus-1"][1].cause is Cause.USER_CANCELLED
    cluster.edit(sink={"use": "jsonl"})
    cluster.advance(1000)
    assert find_end(cluster) == ("False", "UserCancelled")
    assert len(cluster.attempts) == 1


def test_a_running_attempt_is_suspended_though_its_spec_is_invalid(
    cluster: SimulatedCluster,
) -> None:
    cluster.edit(sink={"use": "NO"}, suspend=True)
    cluster.settle()
    assert not is_going(cluster)
    cluster.finish_teardown()
    cluster.edit(sink={"use": "jsonl"})
    cluster.settle()
    assert cluster.status.phase is PipelinePhase.SUSPENDED
    cluster.edit(suspend=False)
    cluster.settle()
    assert cluster.attempts["corpus-2"][0]["spec"]["trigger"] == Trigger.RESUME


@pytest.mark.parametrize("odd", [None, [], "true", {"suspend": "yes"}])
def test_an_invalid_suspend_value_does_not_suspend(cluster: SimulatedCluster, odd: object) -> None:
    cluster.policy = RetryPolicy()
    cluster.pipeline["spec"] = odd
    cluster.settle()
    assert is_going(cluster)


def test_an_attempt_that_waits_for_its_rayjob_is_cancelled_though_its_spec_is_invalid() -> None:
    cluster = SimulatedCluster(has_kuberay=False)
    cluster.settle()
    cluster.edit(sink={"use": "NO"})
    cluster.annotate("cancel", "enough")
    cluster.settle()
    cluster.advance(10)
    assert cluster.attempts["corpus-1"][1].cause is Cause.USER_CANCELLED


@pytest.mark.parametrize("when", ["waiting", "tearing down"])
def test_requests_made_during_an_invalid_spec_are_not_lost(
    cluster: SimulatedCluster, when: str
) -> None:
    break_down(cluster)
    if when == "waiting":
        cluster.finish_teardown()
    cluster.edit(sink={"use": "NO"})
    cluster.annotate("cancel", "enough")
    cluster.settle()
    if when != "waiting":
        cluster.finish_teardown()
    cluster.edit(sink={"use": "jsonl"})
    cluster.advance(100_000)
    assert find_end(cluster) == ("False", "UserCancelled")
    assert len(cluster.attempts) == 1


def test_a_retry_during_an_invalid_spec_waits_for_the_fix(cluster: SimulatedCluster) -> None:
    cluster.finish(64)
    cluster.edit(sink={"use": "NO"})
    cluster.annotate("retry", "one")
    cluster.settle()
    assert handled(cluster) == ("", "")
    cluster.edit(sink={"use": "jsonl"})
    cluster.settle()
    assert handled(cluster) == ("one", "")
    assert len(cluster.attempts) == 2


def test_a_cancel_of_a_finished_run_with_an_invalid_spec_does_not_reach_the_next(
    cluster: SimulatedCluster,
) -> None:
    cluster.finish()
    cluster.edit(sink={"use": "NO"})
    cluster.annotate("cancel", "whatever")
    cluster.settle()
    cluster.edit(sink={"use": "jsonl"}, runId="second")
    cluster.settle()
    assert len(cluster.attempts) == 2


def read_entrypoint(cluster: SimulatedCluster) -> str:
    *_, rayjob = cluster.list_of(Resource.RAYJOB)
    return str(rayjob["spec"]["entrypoint"])


def test_a_repair_is_an_attempt_that_checks_for_damage(cluster: SimulatedCluster) -> None:
    assert "--missing" not in read_entrypoint(cluster)
    cluster.outcome = DriverOutcome(exit_code=0)
    cluster.settle()
    cluster.finish_teardown()
    assert find_end(cluster)[0] == "True"
    cluster.annotate("repair", "one")
    cluster.settle()
    assert cluster.attempts["corpus-2"][0]["spec"]["trigger"] == Trigger.REPAIR
    assert " --missing" in read_entrypoint(cluster)
    cluster.advance(1000)
    assert len(cluster.attempts) == 2


def test_a_repair_requested_during_an_attempt_waits_for_the_end(
    cluster: SimulatedCluster,
) -> None:
    cluster.annotate("repair", "one")
    cluster.settle()
    assert len(cluster.attempts) == 1
    cluster.outcome = DriverOutcome(exit_code=0)
    cluster.settle()
    cluster.finish_teardown()
    cluster.settle()
    assert cluster.attempts["corpus-2"][0]["spec"]["trigger"] == Trigger.REPAIR


def test_the_attempt_after_a_failed_repair_is_a_retry(cluster: SimulatedCluster) -> None:
    cluster.annotate("repair", "one")
    break_down(cluster)
    cluster.finish_teardown()
    cluster.settle()
    cluster.outcome = DriverOutcome(exit_code=1)
    cluster.settle()
    cluster.finish_teardown()
    cluster.advance(10_000)
    triggers = [attempt["spec"]["trigger"] for attempt, _ in cluster.attempts.values()]
    assert triggers[:3] == [Trigger.RUN, Trigger.REPAIR, Trigger.RETRY]
