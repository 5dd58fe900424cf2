"""Each end of an attempt reaches a lineage system once, from the driver or the operator."""

from __future__ import annotations

import pytest

from simulated_cluster import SimulatedCluster
from simulated_pipeline import PIPELINE
from strandline_api.names import CANCEL_ANNOTATION, FINALIZER
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome, SourceCounts
from strandline_api.outcome.evidence import Evidence
from strandline_api.status.enums import LineageState
from strandline_api.status.pipeline_status import Progress
from strandline_operator.decide.run.lineage import list_ends as list_new_ends
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import AttemptEnd, PassPlan, Resource

OOM = Evidence(Cause.OOM_KILLED, "the kernel killed a process of this cgroup for memory", "cgroup")


REPORTING = Limits(reports_lineage=True)


def run_reported(limits: Limits = REPORTING) -> SimulatedCluster:
    cluster = SimulatedCluster(limits=limits)
    cluster.launch()
    cluster.settle()
    return cluster


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a pipeline whose first attempt is running."""
    return run_reported()


def list_ends(cluster: SimulatedCluster) -> list[AttemptEnd]:
    return cluster.lineage.ends


def read_states(cluster: SimulatedCluster) -> list[LineageState | None]:
    return [past.lineage for past in cluster.status.attempts]


def describe(cluster: SimulatedCluster) -> list[tuple[int, str | None]]:
    return [(end.number, end.status.cause) for end in list_ends(cluster)]


def delete_pipeline(cluster: SimulatedCluster) -> None:
    cluster.pipeline["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"


def test_a_running_attempt_has_no_end(cluster: SimulatedCluster) -> None:
    cluster.advance(600)
    assert list_ends(cluster) == []


@pytest.mark.parametrize("code", [0, 1, 3, 75])
def test_an_end_reported_by_the_driver_is_not_sent_by_the_operator(
    cluster: SimulatedCluster, code: int
) -> None:
    cluster.finish(code, lineage=True)
    cluster.advance(600)
    assert list_ends(cluster) == []


def test_an_end_of_a_driver_without_reports_is_sent_by_the_operator(
    cluster: SimulatedCluster,
) -> None:
    cluster.finish(0, sources=SourceCounts(total=9, finished=9))
    cluster.advance(600)
    (end,) = list_ends(cluster)
    assert (end.namespace, end.pipeline, end.name) == ("team", "corpus", "corpus-1")
    assert (end.pipeline_uid, end.run, end.number) == ("uid-p", "first", 1)
    assert (end.status.cause, end.status.is_frozen) == (None, True)
    assert end.status.progress is not None
    assert end.status.progress.finished == 9


def test_a_driver_killed_for_memory_has_one_end_despite_its_parent(
    cluster: SimulatedCluster,
) -> None:
    """The driver's parent survives and records the outcome, but sends no lineage event."""
    cluster.progress = Progress(total=9, finished=4, time=cluster.time)
    cluster.settle()
    cluster.finish(137, evidence=(OOM,))
    cluster.advance(600)
    (end,) = list_ends(cluster)
    assert (end.status.cause, end.status.message) == (Cause.OOM_KILLED, OOM.message)
    assert end.status.progress is not None
    assert (end.status.progress.total, end.status.progress.finished) == (9, 4)
    assert end.retries is not None
    assert end.retries.attempts == 1


def test_a_lost_head_without_a_report_has_one_end(cluster: SimulatedCluster) -> None:
    taint = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    cluster.set_pod("-head", conditions=[taint], phase="Failed")
    cluster.fail_attempt()
    cluster.run_next()
    cluster.finish(0, lineage=True)
    assert describe(cluster) == [(1, Cause.PREEMPTED)]


def test_a_restarted_operator_sends_no_end_again(cluster: SimulatedCluster) -> None:
    cluster.finish(137, evidence=(OOM,))
    cluster.restart(3600)
    cluster.run_next()
    cluster.fail_attempt()
    assert describe(cluster) == [(1, Cause.OOM_KILLED), (2, Cause.APPLICATION_ERROR)]


def test_an_end_during_an_operator_outage_is_sent(cluster: SimulatedCluster) -> None:
    cluster.end_rayjob("Failed", "FAILED", reason="AppFailed", message="exit code 137")
    cluster.restart(3600)
    cluster.finish_teardown()
    assert [number for number, _ in describe(cluster)] == [1]


def test_a_run_that_is_cancelled_is_stopped(cluster: SimulatedCluster) -> None:
    cluster.annotate(CANCEL_ANNOTATION.partition("/")[2], "1")
    cluster.finish_teardown()
    assert describe(cluster) == [(1, Cause.USER_CANCELLED)]


def test_an_attempt_whose_object_is_deleted_has_ended(cluster: SimulatedCluster) -> None:
    del cluster.attempts["corpus-1"]
    begun = cluster.time
    cluster.settle()
    cluster.advance(600)
    (end,) = list_ends(cluster)
    assert (end.name, end.run, end.number) == ("corpus-1", "first", 1)
    assert (end.status.cause, end.status.end_time) == (Cause.INTERRUPTED, begun)


def test_an_attempt_ends_with_its_pipeline(cluster: SimulatedCluster) -> None:
    assert cluster.pipeline["metadata"]["finalizers"] == [FINALIZER]
    delete_pipeline(cluster)
    cluster.settle()
    assert list_ends(cluster) == []  # the pods still exist
    cluster.sweep()
    cluster.settle()
    assert describe(cluster) == [(1, Cause.INTERRUPTED)]


def test_a_reported_end_in_a_deleted_pipeline_is_not_sent_again(
    cluster: SimulatedCluster,
) -> None:
    delete_pipeline(cluster)
    cluster.outcome = DriverOutcome(exit_code=75, lineage=True)
    cluster.settle()
    cluster.sweep()
    cluster.settle()
    assert list_ends(cluster) == []


def test_a_released_pipeline_gets_no_second_end(cluster: SimulatedCluster) -> None:
    cluster.finish(137, evidence=(OOM,))
    delete_pipeline(cluster)
    cluster.settle()
    assert describe(cluster) == [(1, Cause.OOM_KILLED)]


@pytest.mark.parametrize("reports", [False, True])
def test_the_head_gets_the_pipelines_uid_for_lineage_ids(reports: bool) -> None:
    cluster = SimulatedCluster(limits=Limits(reports_lineage=reports))
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    pods = rayjob["spec"]["rayClusterSpec"]
    head = pods["headGroupSpec"]["template"]["spec"]["containers"][0]
    (group,) = pods["workerGroupSpecs"]
    worker = group["template"]["spec"]["containers"][0]
    told = {entry["name"]: entry["value"] for entry in head["env"]}
    assert told.get("STRANDLINE_LINEAGE_UID") == (PIPELINE["metadata"]["uid"] if reports else None)
    assert told["STRANDLINE_ATTEMPT"] == "1"
    assert "STRANDLINE_LINEAGE_UID" not in {entry["name"] for entry in worker["env"]}


def test_a_rewritten_end_is_not_sent_again(cluster: SimulatedCluster) -> None:
    cluster.finish(137, evidence=(OOM,))
    (attempt,) = cluster.view().attempts
    again = attempt.status.model_copy(update={"incidents": 1})
    plan = PassPlan(attempts={attempt.meta.name: again})
    assert list_new_ends(cluster.view(), plan, REPORTING, cluster.time) == ()


def lose_reports(cluster: SimulatedCluster) -> None:
    """Kill the operator between the write of an end and its report, and start a new operator."""
    cluster.restart(60)
    cluster.lineage.ends.clear()


def test_an_end_whose_report_was_lost_with_the_operator_is_sent_by_the_next_one() -> None:
    cluster = run_reported()
    cluster.lineage.answers = False
    cluster.finish(137, evidence=(OOM,))
    assert read_states(cluster) == [LineageState.PENDING]
    lose_reports(cluster)
    cluster.lineage.answers = True
    cluster.pass_once()
    (end,) = list_ends(cluster)
    assert (end.number, end.status.cause, end.status.message) == (1, Cause.OOM_KILLED, OOM.message)
    cluster.settle()
    assert read_states(cluster) == [LineageState.SENT]
    lose_reports(cluster)
    cluster.advance(600)
    assert list_ends(cluster) == []


def test_a_pending_report_keeps_the_pipeline_from_resting() -> None:
    cluster = run_reported()
    cluster.lineage.answers = False
    cluster.finish(0)
    cluster.advance(60)
    plan = cluster.pass_once()
    assert (len(plan.ends), plan.is_at_rest) == (1, False)
    assert plan.wake_at == cluster.time + REPORTING.resync
    cluster.lineage.states[1] = LineageState.REFUSED
    cluster.settle()
    assert read_states(cluster) == [LineageState.REFUSED]
    plan = cluster.pass_once()
    assert (plan.ends, plan.is_at_rest) == ((), True)


def test_an_attempt_that_lost_its_object_keeps_its_report() -> None:
    cluster = run_reported()
    cluster.lineage.answers = False
    del cluster.attempts["corpus-1"]
    cluster.settle()
    lose_reports(cluster)
    cluster.lineage.answers = True
    cluster.settle()
    (end,) = list_ends(cluster)
    assert (end.number, end.status.cause) == (1, Cause.INTERRUPTED)


def test_a_pending_report_outlives_the_limit_of_the_history() -> None:
    cluster = run_reported()
    cluster.edit(attemptHistoryLimit=1, retry={"jitter": "none", "maxRetries": 9})
    cluster.lineage.answers = False
    for _ in range(3):
        cluster.fail_attempt()
        cluster.run_next()
    cluster.fail_attempt()
    assert [past.number for past in cluster.status.attempts] == [1, 2, 3, 4]
    lose_reports(cluster)
    cluster.lineage.answers = True
    cluster.settle()
    assert [end.number for end in list_ends(cluster)] == [1, 2, 3, 4]
    cluster.run_next()
    cluster.fail_attempt()
    assert [past.number for past in cluster.status.attempts] == [5]


def test_a_pending_report_is_sent_though_the_spec_is_invalid_by_then() -> None:
    cluster = run_reported()
    cluster.lineage.answers = False
    cluster.finish(0)
    lose_reports(cluster)
    cluster.lineage.answers = True
    cluster.edit(source={"colour": "red"})
    cluster.settle()
    assert [end.number for end in list_ends(cluster)] == [1]
    assert read_states(cluster) == [LineageState.SENT]


def test_an_operator_without_reporting_records_no_report() -> None:
    cluster = run_reported(Limits())
    cluster.finish(137, evidence=(OOM,))
    cluster.advance(600)
    assert (list_ends(cluster), read_states(cluster)[0]) == ([], None)


def test_an_operator_that_stopped_reporting_keeps_pending_reports() -> None:
    cluster = run_reported()
    cluster.lineage.answers = False
    cluster.finish(0)
    cluster.limits = Limits()
    cluster.settle()
    plan = cluster.pass_once()
    assert (plan.ends, plan.is_at_rest) == ((), True)
    cluster.limits, cluster.lineage.answers = REPORTING, True
    cluster.lineage.ends.clear()
    cluster.settle()
    assert [end.number for end in list_ends(cluster)] == [1]


def test_law_each_end_is_sent_despite_a_kill_at_any_call() -> None:
    cut = 0
    while True:
        cut += 1
        cluster = SimulatedCluster(limits=REPORTING, cut_at=cut)
        cluster.launch()
        cluster.settle()
        cluster.fail_attempt()
        cluster.settle()
        if not cluster.cuts:
            break
        assert {end.number for end in list_ends(cluster)} == {1}, cut
    assert cut > 5
