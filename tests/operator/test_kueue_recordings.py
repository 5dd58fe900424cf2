"""How the operator reacts to the actions of Kueue 0.17 on RayJobs, recorded on a real server."""

from __future__ import annotations

import re

import pytest

from kueue_replay import Replay, read_conditions, read_rayjobs
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_operator.integrations.kueue.scheduler import Kueue
from strandline_operator.model.objects import RayJob
from summary_law import check_summary

BEGUN = ["Queued", "Starting", "Running"]
TAKEN = [*BEGUN, "TearingDown", "Failed"]


@pytest.mark.parametrize(
    ("story", "pipeline", "words"),
    [
        ("preempted", "low", "Preempted to accommodate a workload"),
        ("stopped", "runs", "The ClusterQueue is stopped"),
        ("stopped", "waits", "The LocalQueue is stopped"),
        ("flavor", "placed", "The ClusterQueue is stopped"),
        ("deactivated", "taken", "The workload is deactivated"),
        ("borrowed", "borrower", "due to reclamation within the cohort"),
        ("operator-away", "seen", "The ClusterQueue is stopped"),
        ("elastic", "grows", "The ClusterQueue is stopped"),
    ],
)
def test_an_evicted_run_reports_the_reason_and_waits_again(
    story: str, pipeline: str, words: str
) -> None:
    replay = Replay.play(story, pipeline)
    cause, message = replay.end(f"{pipeline}-1")
    assert cause == "Interrupted"
    assert words in message
    assert replay.phases[f"{pipeline}-1"] == TAKEN
    assert replay.phases[f"{pipeline}-2"][0] == "Queued"
    retries = replay.cluster.status.retries
    assert retries is not None
    assert retries.retries == 0
    assert replay.cluster.most_running <= 1


@pytest.mark.parametrize(
    ("story", "pipeline", "phases"),
    [
        ("waits", "second", BEGUN),
        ("borrowed", "other", BEGUN),
        ("no-queue", "early", BEGUN),
        ("no-queue", "late", BEGUN),
        # The attempt may wait in the queue several times before its driver has run.
        ("preempted-early", "low", ["Queued", "Starting", *BEGUN]),
        ("pods-ready", "slow", ["Queued", "Starting", "Queued", "Starting", "Queued"]),
        ("all-managed", "plain", ["Queued"]),
        ("kueue-away", "early", BEGUN),
        ("no-class", "unranked", BEGUN),
        ("elastic-early", "grows", ["Queued", "Starting", *BEGUN]),
    ],
)
def test_a_waiting_run_is_one_attempt_for_any_number_of_admissions(
    story: str, pipeline: str, phases: list[str]
) -> None:
    replay = Replay.play(story, pipeline)
    assert list(replay.phases) == [f"{pipeline}-1"]
    assert replay.phases[f"{pipeline}-1"][: len(phases)] == phases
    status = replay.cluster.attempts[f"{pipeline}-1"][1]
    assert status.cause is None
    assert status.evidence == ()


@pytest.mark.parametrize(
    ("story", "pipeline", "why"),
    [
        ("waits", "second", "couldn't assign flavors to pod set head: insufficient unused quota"),
        ("no-queue", "early", "LocalQueue team-a doesn't exist"),
        ("no-queue", "late", "LocalQueue team-a doesn't exist"),
        ("stopped", "waits", "ClusterQueue all is inactive"),
        ("pods-ready", "slow", "Exceeded the PodsReady timeout team/rayjob-slow-1-f62d2"),
        ("pods-ready", "slow", "to true to queue it again"),
        ("preempted-early", "low", "Preempted to accommodate a workload"),
    ],
)
def test_a_wait_names_the_queue_the_start_and_the_reason(
    story: str, pipeline: str, why: str
) -> None:
    replay = Replay.play(story, pipeline)
    waits = {message: states for (_, message), states in replay.waits.items() if why in message}
    assert waits
    for message, (state, summary) in waits.items():
        assert re.match(
            "Kueue holds the attempt in a queue: LocalQueue team-a since 2026-11-26T2[0-9:]+Z: ",
            message,
        )
        assert why in state
        check_summary(PipelineStatus(state=state, summary=summary))
        assert summary.startswith("attempt 1: queued")
    assert not [event for event in replay.cluster.events if event.reason == "Blocked"]


def test_a_missing_queue_is_named_in_the_summary() -> None:
    waits = Replay.play("no-queue", "early").waits.values()
    assert "attempt 1: queued: LocalQueue team-a doesn't exist" in {brief for _, brief in waits}
    waits = Replay.play("waits", "second").waits.values()
    assert "attempt 1: queued in team-a since 21:03:10Z" in {brief for _, brief in waits}


@pytest.mark.parametrize(
    ("story", "pipeline"),
    [("refused", "seven"), ("refused", "named"), ("multikueue", "sent")],
)
def test_an_unfit_queue_is_recorded_without_an_admission(story: str, pipeline: str) -> None:
    conditions = read_conditions(story, f"{pipeline}-1")
    assert ("Admitted", "True", "Admitted") not in conditions
    versions = read_rayjobs(story, f"{pipeline}-1")
    assert versions
    assert all(version["spec"]["suspend"] for version in versions)
    misfit = Kueue().explain_misfit(RayJob.read(versions[-1]), is_queued=True)
    assert misfit.startswith("MultiKueue sends") == (story == "multikueue")


def test_a_flavor_is_in_all_templates_only_while_admitted() -> None:
    """Kueue writes placements only into the RayJob, and the operator keeps them there."""
    versions = read_rayjobs("flavor", "placed-1")
    running = [each for each in versions if each["status"].get("jobStatus") == "RUNNING"]
    for template in running[0]["spec"]["templates"].values():
        assert template["nodeSelector"]["pool"] == "spot"
        assert {each["key"] for each in template["tolerations"]} >= {"team", "spot"}
    (before, after) = (versions[0]["spec"]["templates"], versions[-1]["spec"]["templates"])
    assert before == after


def test_a_growing_cluster_has_several_workloads_for_one_rayjob() -> None:
    versions = read_rayjobs("elastic", "grows-1")
    annotation = "kueue.x-k8s.io/elastic-job"
    assert all(each["metadata"]["annotations"][annotation] == "true" for each in versions)
    assert versions[0]["spec"]["enableInTreeAutoscaling"] is True
    assert versions[0]["spec"]["suspend"] is True
    conditions = read_conditions("elastic", "grows-1")
    assert ("Finished", "True", "WorkloadSliceReplaced") in conditions


def test_a_worker_beyond_the_quota_waits_while_the_run_continues() -> None:
    conditions = read_conditions("elastic-full", "stays-1")
    assert ("QuotaReserved", "False", "Pending") in conditions
    replay = Replay.play("elastic-full", "stays")
    assert replay.phases["stays-1"][: len(BEGUN)] == BEGUN
    assert replay.end("stays-1")[0] is None
