"""For every recording of a real KubeRay, the operator finds the right cause and next step.

The table follows the notes of the recordings, not the code. Transcripts of the status changes are
in tests/golden/scenarios.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from agreeing_conditions import find_contradictions
from played_operator import AwayScenario, Scenario, Sighting
from recorded_runs import list_statuses, play
from recordings import list_recordings, read_recording
from status_transcript import render_transcript
from strandline_api.status.pipeline_status import parse_status
from strandline_operator.model.plan import Resource
from summary_law import check_summary

pytestmark = pytest.mark.first(reason="replays every recording")

DISRUPTION, RETRY, NEVER, DONE, ON = "disruption", "retry", "never", "done", "goes on"
WAIT = "wait"


class End(NamedTuple):
    """The expected cause, next step, pod in the evidence (or pod/container), and incidents."""

    cause: str
    follows: str
    witness: str = ""
    incidents: int = 0


ENDS = {
    "a-success": End("", DONE),
    "b-app-failure": End("ApplicationError", RETRY),
    "c1-worker-task-oom-kernel": End("OOMKilled", RETRY, "worker/ray-worker"),
    "c2-worker-container-oom-kernel": End("OOMKilled", RETRY, "worker/ray-worker"),
    "c3-worker-task-oom-ray-monitor": End("", ON),
    "c4-worker-task-oom-ray-monitor-no-retry": End("ApplicationError", RETRY),
    "c5-worker-task-oom-fast-monitor-on": End("OOMKilled", RETRY, "worker/ray-worker"),
    "d1-driver-oom-kernel": End("Killed", RETRY),
    "d2-driver-supervisor-oom-kernel": End("Killed", RETRY),
    "d3-head-container-oom-kernel": End("OOMKilled", RETRY, "head/ray-head"),
    "e1-submitter-oom": End("SubmissionFailed", RETRY, "submitter/ray-job-submitter"),
    "e2-submitter-deleted": End("", DONE),
    "f-worker-preempted": End("", DONE, incidents=1),
    "f2-head-preempted": End("Preempted", DISRUPTION, "head"),
    "g1-head-evicted": End("Evicted", DISRUPTION, "head"),
    "g2-head-deleted": End("Interrupted", DISRUPTION, "head"),
    "g3-worker-evicted": End("", DONE, incidents=1),
    "g4-head-evicted-submitter-backoff-0": End("Evicted", DISRUPTION, "head"),
    "g5-head-evicted-httpmode": End("Evicted", DISRUPTION, "head"),
    "g6-node-taint": End("NodeLost", DISRUPTION, "head", incidents=1),
    "h-image-pull": End("ImagePullFailure", RETRY, "head/ray-head"),
    "i-unschedulable": End("SchedulingTimeout", RETRY),
    "j-suspend-resume": End("Interrupted", DISRUPTION),
    "j2-suspend-rejected": End("InvalidSpec", NEVER),
    "k-active-deadline": End("DeadlineExceeded", NEVER),
    "k2-active-deadline-shutdown": End("DeadlineExceeded", NEVER),
    "l-rayjob-deleted": End("Interrupted", DISRUPTION),
    "m-backoff-retry": End("ApplicationError", RETRY),
    "s-driver-oom": End("OOMKilled", RETRY, "head/ray-head"),
    "s-exit-1": End("ApplicationError", RETRY),
    "s-exit-64": End("InvalidSpec", NEVER),
    "s-exit-64-after-workers": End("InvalidSpec", NEVER),
    "s-exit-75": End("Interrupted", DISRUPTION),
    "s-head-container-oom": End("OOMKilled", RETRY, "head/ray-head"),
    "s-head-deleted": End("Interrupted", DISRUPTION),
    "s-head-deleted-before-ready": End("Interrupted", DISRUPTION),
    "s-head-deleted-linger": End("Interrupted", DISRUPTION),
    "s-head-evicted": End("Evicted", DISRUPTION, "head"),
    "s-head-preempted": End("Preempted", DISRUPTION, "head"),
    "s-k-exit-64": End("InvalidSpec", NEVER),
    "s-k-head-and-submitter-evicted": End("Evicted", DISRUPTION, "head"),
    "s-k-head-deleted": End("Interrupted", DISRUPTION),
    "s-k-head-deleted-before-ready": End("", DONE),
    "s-k-head-deleted-linger": End("Interrupted", DISRUPTION),
    "s-k-head-preempted": End("Preempted", DISRUPTION, "head"),
    "s-k-head-preempted-linger": End("Preempted", DISRUPTION, "head"),
    "s-k-job-supervisor-oom": End("Killed", RETRY),
    "s-k-rayjob-deleted": End("Interrupted", DISRUPTION),
    "s-k-submitter-lost": End("SubmissionFailed", RETRY),
    "s-k-success": End("", DONE),
    "s-rayjob-deleted": End("Interrupted", DISRUPTION),
    "s-rayjob-deleted-stopwait": End("Interrupted", DISRUPTION),
    "s-submitter-lost": End("SubmissionFailed", RETRY),
    "s-success": End("", DONE),
    "s-suspend": End("Interrupted", DISRUPTION),
    # The operator retries with more memory after the first kill. In the recording, the worker is
    # killed again.
    "s-worker-oom": End("OOMKilled", RETRY, "worker/ray-worker"),
    "s-worker-preempted": End("", DONE, incidents=1),
    "v-no-ray-version": End("SchedulingTimeout", RETRY),
    "v-node-drained": End("Evicted", DISRUPTION, "head", incidents=1),
    "v-quota-on-pods": End("QuotaExceeded", WAIT),
    "v-quota-on-submitter": End("QuotaExceeded", WAIT),
    "v-raycluster-deleted": End("Interrupted", DISRUPTION),
    "v-slow-start": End("", DONE),
}
NAMES = list_recordings()
everywhere = pytest.mark.parametrize("name", NAMES)


def statuses(scenario: Scenario, kind: str) -> Iterator[Sighting]:
    return (sighting for sighting in scenario.sightings if sighting.kind == kind)


def find_conditions(body: dict[str, Any]) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in body["status"]["conditions"]}


def read_following(scenario: Scenario) -> str:
    """Return the next step from the first status of the pipeline that counts the attempt."""
    for one in statuses(scenario, "CurationPipeline"):
        status = one.body["status"]
        if status.get("retries", {}).get("through") == 1:
            if "nextAttemptTime" in status:
                if status["state"].startswith("wait 1 for the quota, retry at "):
                    return WAIT
                is_disruption = status["state"].startswith("disruption 1 of 100, retry at ")
                assert is_disruption or status["state"].startswith("retry 1 of 3 at ")
                return DISRUPTION if is_disruption else RETRY
            return DONE if find_conditions(one.body)["Succeeded"] == "True" else NEVER
    return ON


def test_every_recording_is_in_the_table() -> None:
    assert sorted(ENDS) == sorted(NAMES)


@everywhere
def test_every_summary_fits_a_terminal(name: str) -> None:
    pipelines = list(statuses(play(name), "CurationPipeline"))
    assert pipelines
    for sighting in pipelines:
        check_summary(parse_status(sighting.body["status"]))


@everywhere
def test_the_cause_and_the_next_step_are_right(name: str) -> None:
    scenario, expected = play(name), ENDS[name]
    status = scenario.attempt["status"]
    assert (status.get("cause", ""), read_following(scenario)) == expected[:2]
    assert scenario.is_final() == (expected.follows != ON)
    assert status.get("incidents", 0) == expected.incidents


@everywhere
def test_the_evidence_names_the_right_pod(name: str) -> None:
    witness = ENDS[name].witness
    if not witness:
        return
    role, _, container = witness.partition("/")
    scenario = play(name)
    status = scenario.attempt["status"]
    seen = [one for one in status["evidence"] if one["cause"] == status["cause"]]
    seen = [one["details"] for one in seen if one["source"] == "pod"]
    assert any(
        one["pod"].startswith("corpus-1-")
        and one.get("role", role) == role
        and one.get("container", "") == container
        for one in seen
    ), seen


@everywhere
def test_no_two_attempts_ever_have_pods_and_nothing_is_left(name: str) -> None:
    scenario = play(name)
    has_pods = any(step.kind == "Pod" for step in read_recording(name).steps)
    assert scenario.most_attempts == has_pods
    if ENDS[name].follows != ON:
        for kind in (Resource.RAYJOB, Resource.RAYCLUSTER, Resource.POD):
            left = scenario.store.list(kind)
            assert [one for one in left if one["metadata"]["name"].startswith("corpus-1-")] == []


@everywhere
def test_gitops_tools_read_every_status_right(name: str) -> None:
    scenario, has_run = play(name), False
    for sighting in scenario.sightings:
        status, found = sighting.body["status"], find_conditions(sighting.body)
        assert status["observedGeneration"] == sighting.body["metadata"]["generation"]
        assert all(truth == "True" for kind, truth in found.items() if kind == "Stalled")
        if sighting.kind == "CurationAttempt":
            has_run = has_run or "runningTime" in status
            is_over = bool(status["isFrozen"])
            assert found["Succeeded"] == (
                "Unknown" if not is_over else "False" if "cause" in status else "True"
            )
            assert ("Frozen" in found) == is_over
        else:
            has_failed = found["Succeeded"] == "False"
            assert ("Stalled" in found) == has_failed
            is_active = status["phase"] not in {"Succeeded", "Failed"}
            assert is_active == (found["Succeeded"] == "Unknown")
            has_ended = bool(status.get("attempts"))
            assert ("Reconciling" in found) == (is_active and not has_run and not has_ended)


@everywhere
def test_no_condition_contradicts_another(name: str) -> None:
    for sighting in statuses(play(name), "CurationPipeline"):
        found = find_contradictions(sighting.body["status"])
        assert found == [], (sighting.at, sighting.after)


@everywhere
def test_a_status_is_written_only_when_something_has_changed(name: str) -> None:
    """Each write requests a pass, so a redundant write would repeat passes forever."""
    last: dict[str, Any] = {}
    for sighting in play(name).sightings:
        before, now = last.get(sighting.kind), forget_times(sighting.body["status"])
        assert now != before, f"{sighting.kind} at {sighting.at}"
        last[sighting.kind] = now


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("v-no-ray-version", "head pod .* runs but is not Ready for .*wget: command not found"),
        ("v-quota-on-pods", 'pods "corpus-1-.*-head-…" is forbidden: exceeded quota: small, requ'),
        ("v-quota-on-submitter", "Job corpus-1: .* must specify limits.cpu for: ray-job-submitter"),
        ("v-node-drained", r"was evicted from node node-1 \(Eviction API: evicting\)"),
    ],
)
def test_the_message_names_the_reason_for_the_failed_start(name: str, words: str) -> None:
    message = play(name).attempt["status"]["message"]
    assert re.search(words, message), message


@pytest.mark.parametrize(
    ("name", "reason", "seconds"),
    [("v-no-ray-version", "PodNotReady", 75), ("v-quota-on-pods", "QuotaUsedUp", 5)],
)
def test_the_reason_was_reported_long_before(name: str, reason: str, seconds: float) -> None:
    told = [
        status.at
        for status in statuses(play(name), "CurationPipeline")
        for condition in status.body["status"]["conditions"]
        if condition["reason"] == reason
    ]
    assert told[0] <= seconds


def test_a_slow_healthy_start_reports_no_obstacle() -> None:
    """In this recording the head needs 43 s to become Ready, and the job needs 23 s more.

    `test_driver_silence.py` tests that a driver's silence during this time has no consequences.
    """
    scenario = play("v-slow-start")
    told = [
        condition["reason"]
        for status in statuses(scenario, "CurationPipeline")
        for condition in status.body["status"]["conditions"]
        if condition["type"] == "Succeeded"
    ]
    assert set(told) == {
        *("ClaimPending", "Pending", "Starting", "Running", "TearingDown", "Completed")
    }
    warnings = [one for one in scenario.store.list(Resource.EVENT) if one["type"] == "Warning"]
    assert [one for one in warnings if one["reason"] == "Blocked"] == []


def test_a_submitter_rejected_by_a_quota_ends_within_seconds() -> None:
    """KubeRay reported Running after 52 s in this recording, but the Job's pod was rejected."""
    ends = [
        sighting.at
        for sighting in statuses(play("v-quota-on-submitter"), "CurationAttempt")
        if "endTime" in sighting.body["status"]
    ]
    assert ends[0] < 51.8 + 15.0


@pytest.mark.parametrize("back", [105.0, 140.0], ids=["before KubeRay", "after KubeRay's word"])
def test_an_operator_evicted_too_does_not_report_the_drain_as_a_failure(back: float) -> None:
    """KubeRay itself failed this RayJob. An earlier version took this for the driver's report."""
    scenario = AwayScenario("v-node-drained", away=(66.0, back))
    scenario.run()
    status = scenario.attempt["status"]
    assert (status["cause"], read_following(scenario)) == ("Interrupted", DISRUPTION)
    assert status["message"] == "the head pod is gone for an unknown reason"


def forget_times(status: dict[str, Any]) -> dict[str, Any]:
    conditions = [
        {key: value for key, value in condition.items() if key != "lastTransitionTime"}
        for condition in status["conditions"]
    ]
    return {**status, "conditions": conditions}


@everywhere
def test_every_status_matches_its_transcript(name: str, golden: Callable[[str, str], None]) -> None:
    title = f"# {name}: {read_recording(name).title}\n\n"
    golden(f"scenarios/{name}.txt", title + render_transcript(list_statuses(name)))


def test_a_transcript_has_changed_and_removed_fields() -> None:
    ready = {"type": "Ready", "status": "False", "reason": "Waiting", "message": "for a node"}
    first = {"phase": "Pending", "conditions": [ready | {"lastTransitionTime": "1"}], "tries": 0}
    later = {"phase": "Running", "conditions": [ready | {"lastTransitionTime": "2"}]}
    statuses = [
        {"at": 0.0, "after": "apply", "kind": "Run", "status": first},
        {"at": 2.5, "after": "a node", "kind": "Run", "status": later},
    ]
    assert render_transcript(statuses).splitlines() == [
        "0 s, after apply: Run",
        "  phase: Pending",
        "  conditions.Ready: False, Waiting: for a node",
        "",
        "2.5 s, after a node: Run",
        "  phase: Running",
        "  - tries",
    ]
