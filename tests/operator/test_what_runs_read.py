"""A run reads a fixed run of another pipeline, and waits if that run is about to be replaced."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from simulated_cluster import SimulatedCluster
from strandline_api.status.inputs import InputRecord
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.scheduling.dependents import Dependents
from strandline_operator.reconcile.scheduling.schedule import Key
from test_predecessors_on_a_cluster import (
    REFERENCE,
    complete,
    follow,
    list_mounts,
    make_other,
    read_succeeded,
)

MIDNIGHT = datetime(2026, 11, 24, tzinfo=UTC).timestamp()
HOUR = 3600.0
NIGHTLY = {"cron": "0 3 * * *"}


def finish_run(cluster: SimulatedCluster, code: int = 0) -> None:
    """Run the existing RayJob to its end."""
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish(code)


def begin_night() -> tuple[SimulatedCluster, SimulatedCluster]:
    """Return two pipelines that are due at the same second, each after one run."""
    raw = make_other(schedule=NIGHTLY)
    cluster = follow(raw, **REFERENCE, schedule=NIGHTLY)
    for each in (raw, cluster):
        each.time = MIDNIGHT
    complete(raw)
    cluster.settle()
    finish_run(cluster)
    for each in (raw, cluster):
        each.time = MIDNIGHT + 3 * HOUR
    return raw, cluster


def read_sources(cluster: SimulatedCluster, number: int) -> Any:
    """Return the paths that the driver of an attempt reads."""
    config = cluster.objects[Resource.CONFIG_MAP, f"corpus-{number}"]
    return yaml.safe_load(config["data"]["pipeline.yaml"])["spec"]["source"]["with"]["paths"]


def test_a_due_run_of_the_input_is_awaited() -> None:
    raw, cluster = begin_night()
    for _ in range(5):
        cluster.advance(1.0)
        assert len(cluster.attempts) == 1
    assert cluster.status.run == "at-20261124t0300z"
    assert cluster.status.state == "waits for raw (its next run is due)"
    raw.settle()
    cluster.settle()
    assert cluster.status.state == "waits for raw (run 'at-20261124t0300z' is in progress)"
    finish_run(raw)
    cluster.settle()
    assert len(cluster.attempts) == 2


def test_a_later_run_of_the_input_is_not_awaited() -> None:
    raw, cluster = begin_night()
    raw.edit(schedule={"cron": "1 3 * * *"})
    raw.settle()
    cluster.settle()
    assert len(cluster.attempts) == 2


def test_a_skipped_run_of_the_input_is_not_awaited() -> None:
    raw, cluster = begin_night()
    raw.edit(suspend=True)
    cluster.settle()
    raw.settle()
    cluster.settle()
    assert len(cluster.attempts) == 2


def test_a_named_run_is_not_delayed_by_a_schedule() -> None:
    _, cluster = begin_night()
    cluster.edit(after=[{"name": "raw", "runId": "first"}])
    cluster.settle()
    cluster.advance(1.0)
    assert len(cluster.attempts) == 2


def test_a_requested_attempt_of_the_input_is_awaited() -> None:
    raw = make_other()
    complete(raw)
    raw.annotate("retry", "1")
    cluster = follow(raw)
    cluster.settle()
    assert cluster.status.state == "waits for raw (an attempt is requested)"
    raw.settle()
    cluster.settle()
    assert not cluster.attempts
    finish_run(raw)
    cluster.settle()
    assert len(cluster.attempts) == 1


def make_body(**status: Any) -> dict[str, Any]:
    metadata = {"name": "raw", "namespace": "team", "uid": "r", "generation": 1}
    return {"metadata": metadata, "spec": {}, "status": {"run": "first", **status}}


@pytest.mark.parametrize(
    "change",
    [
        {"schedule": {"nextTime": "2026-11-25T03:00:00Z"}},
        {"handled": {"retry": "1"}},
    ],
)
def test_a_waiting_pipeline_is_woken_by_its_input(change: dict[str, Any]) -> None:
    dependents, reader, raw = Dependents(), Key("team", "corpus"), Key("team", "raw")
    body = {
        "metadata": {"name": "corpus", "namespace": "team"},
        "spec": {"after": [{"name": "raw"}]},
    }
    dependents.note(reader, body)
    dependents.note(raw, make_body())
    assert dependents.note(raw, make_body()) == ()
    assert dependents.note(raw, make_body(**change)) == (reader,)


def begin_second_run() -> tuple[SimulatedCluster, SimulatedCluster]:
    """Return two pipelines after one run each. The reader gets a new `runId` before the other."""
    raw = make_other()
    cluster = follow(raw, **REFERENCE)
    complete(raw)
    cluster.settle()
    finish_run(cluster)
    cluster.edit(runId="second")
    cluster.settle()
    return raw, cluster


def test_the_read_run_is_recorded() -> None:
    raw = make_other()
    raw.status = raw.status.model_copy(update={"latest": "attempts/0001/p0002"})
    complete(raw)
    cluster = follow(raw, **REFERENCE)
    cluster.settle()
    (kept,) = cluster.status.inputs
    assert kept == InputRecord(
        pipeline="raw",
        uid="uid-raw",
        run="first",
        generation=1,
        published="attempts/0001/p0002",
        output="/var/lib/strandline-inputs/raw-ledger/team/raw/output",
        output_claim="raw-ledger",
        ledger_claim="raw-ledger",
    )
    body, _ = cluster.attempts["corpus-1"]
    assert body["spec"]["inputs"] == [kept.to_json()]


def test_two_new_runs_of_one_commit_run_in_order() -> None:
    raw, cluster = begin_second_run()
    assert read_succeeded(cluster) == ("Unknown", "WaitsForPipelines")
    assert cluster.status.state.startswith("waits for raw (run 'first' was already read; ")
    cluster.advance(2.0)
    raw.edit(runId="second")
    cluster.settle()
    raw.settle()
    cluster.settle()
    assert cluster.status.state == "waits for raw (run 'second' is in progress)"
    cluster.advance(HOUR)
    finish_run(raw)
    cluster.settle()
    assert len(cluster.attempts) == 2
    assert [each.run for each in cluster.status.inputs] == ["second"]


def test_a_new_run_waits_a_minute_for_a_new_run_of_its_input() -> None:
    _, cluster = begin_second_run()
    plan = cluster.pass_once()
    assert plan.wake_at is not None
    assert plan.wake_at <= cluster.time + 60.0
    cluster.advance(59.0)
    assert len(cluster.attempts) == 1
    cluster.advance(1.0)
    assert len(cluster.attempts) == 2


@pytest.mark.parametrize(
    "change",
    [
        {
            "source": {
                "use": "jsonl-files",
                "with": {"paths": [{"pipeline": "raw", "runId": "first"}]},
            }
        },
        {"after": [{"name": "raw", "runId": "first"}]},
    ],
)
def test_a_new_run_that_names_its_input_run_starts_at_once(change: dict[str, Any]) -> None:
    _, cluster = begin_second_run()
    cluster.edit(**change)
    cluster.settle()
    assert len(cluster.attempts) == 2


def test_a_named_run_is_awaited_however_late_its_edit() -> None:
    raw, cluster = begin_second_run()
    cluster.edit(after=[{"name": "raw", "runId": "second"}])
    cluster.settle()
    cluster.advance(5 * HOUR)
    assert cluster.status.state == "waits for raw (run 'second' has not started)"
    raw.edit(runId="second")
    complete(raw)
    cluster.settle()
    assert len(cluster.attempts) == 2
    (read,) = cluster.status.inputs
    assert read.run == "second"


def test_a_reference_that_names_a_run_waits_for_it() -> None:
    raw = make_other()
    complete(raw)
    paths = [{"pipeline": "raw", "runId": "second", "files": "*.jsonl"}]
    cluster = follow(raw, source={"use": "jsonl-files", "with": {"paths": paths}})
    cluster.settle()
    assert cluster.status.state == "waits for raw (run 'second' has not started)"
    raw.edit(runId="second")
    complete(raw)
    cluster.settle()
    assert read_sources(cluster, 1) == [
        "/var/lib/strandline-inputs/raw-ledger/team/raw/output/*.jsonl"
    ]


@pytest.mark.parametrize("change", ["run", "edit", "again", "made anew"])
def test_newer_outputs_are_read_at_once(change: str) -> None:
    raw = make_other()
    cluster = follow(raw, **REFERENCE)
    complete(raw)
    cluster.settle()
    finish_run(cluster)
    if change == "run":
        raw.edit(runId="other")
        complete(raw)
    elif change == "edit":
        raw.edit(oom={"maxMemory": "64Gi"})
        raw.settle()
    elif change == "again":
        raw.status = raw.status.model_copy(update={"latest": "attempts/0002/p0001"})
    else:
        raw.pipeline["metadata"]["uid"] = "uid-new"
    cluster.edit(runId="second")
    cluster.settle()
    assert len(cluster.attempts) == 2


def test_a_scheduled_run_does_not_wait_for_newer_outputs() -> None:
    raw = make_other()
    cluster = follow(raw, **REFERENCE, schedule=NIGHTLY)
    raw.time = cluster.time = MIDNIGHT
    complete(raw)
    cluster.settle()
    finish_run(cluster)
    cluster.time = MIDNIGHT + 3 * HOUR
    cluster.settle()
    assert len(cluster.attempts) == 2


def fail_reader(**spec: Any) -> tuple[SimulatedCluster, SimulatedCluster]:
    """Return a reader whose first attempt has failed and whose retry is due."""
    raw = make_other(**spec)
    complete(raw)
    cluster = follow(raw, **REFERENCE)
    complete(cluster, 1)
    return raw, cluster


def run_retry(cluster: SimulatedCluster) -> None:
    cluster.time = max(cluster.time, cluster.status.next_attempt_time or 0.0)
    cluster.settle()


@pytest.mark.parametrize("spec", [{}, {"storage": {"output": {"url": "s3://b/raw"}}}])
def test_a_retry_reads_its_runs_input_even_if_the_other_is_deleted(
    spec: dict[str, Any],
) -> None:
    _, cluster = fail_reader(**spec)
    before = read_sources(cluster, 1)
    del cluster.others["raw"]
    run_retry(cluster)
    assert read_sources(cluster, 2) == before
    rayjob = cluster.objects[Resource.RAYJOB, "corpus-2"]
    assert bool(list_mounts(rayjob)) == (not spec)


@pytest.mark.parametrize(
    "change",
    [
        {"storage": {"output": {"url": "s3://elsewhere/raw"}}},
        {"sink": {"use": "jsonl", "with": {"path": "out"}}},
        {"storage": {"ledger": {"claimName": "other"}}},
        {"source": 5},
    ],
)
def test_a_retry_reads_its_runs_input_even_if_the_other_was_edited(
    change: dict[str, Any],
) -> None:
    raw, cluster = fail_reader()
    before = read_sources(cluster, 1)
    raw.edit(**change)
    run_retry(cluster)
    assert read_sources(cluster, 2) == before
    finish_run(cluster)
    if change.get("storage", {}).get("output"):
        raw.settle()
        complete_again(raw)
        cluster.edit(runId="second")
        cluster.settle()
        assert read_sources(cluster, 3) == ["s3://elsewhere/raw/"]


def complete_again(raw: SimulatedCluster) -> None:
    raw.edit(runId="second")
    raw.settle()
    finish_run(raw)


def test_a_resumed_run_reads_its_original_input() -> None:
    raw = make_other()
    complete(raw)
    cluster = follow(raw, **REFERENCE)
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.finish(75)
    del cluster.others["raw"]
    cluster.edit(suspend=False)
    cluster.settle()
    assert read_sources(cluster, 2) == read_sources(cluster, 1)


def test_a_manual_attempt_reads_its_runs_original_input() -> None:
    raw = make_other()
    complete(raw)
    cluster = follow(raw, **REFERENCE)
    complete(cluster, 64)
    del cluster.others["raw"]
    cluster.annotate("retry", "1")
    cluster.settle()
    assert read_sources(cluster, 2) == read_sources(cluster, 1)


def test_a_new_run_reads_the_current_outputs() -> None:
    _, cluster = fail_reader()
    run_retry(cluster)
    finish_run(cluster)
    del cluster.others["raw"]
    cluster.edit(runId="second")
    cluster.settle()
    assert cluster.status.state == "waits for raw (does not exist)"
    assert len(cluster.attempts) == 2


def test_an_input_added_to_a_run_is_read_from_then_on() -> None:
    _, cluster = fail_reader()
    more = cluster.others["more"] = make_other("more")
    complete(more)
    paths = [{"pipeline": "raw"}, {"pipeline": "more"}]
    cluster.edit(source={"use": "jsonl-files", "with": {"paths": paths}})
    del cluster.others["raw"]
    run_retry(cluster)
    assert [each.pipeline for each in cluster.status.inputs] == ["more", "raw"]
    assert len(read_sources(cluster, 2)) == 2


def test_a_named_run_is_found_after_many_others() -> None:
    raw = make_other(attemptHistoryLimit=1)
    complete(raw)
    for number in range(5):
        raw.edit(runId=f"run-{number}")
        raw.settle()
        finish_run(raw)
    assert [past.run for past in raw.status.attempts] == ["run-4"]
    assert raw.status.completed_runs == ("first", "run-0", "run-1", "run-2", "run-3")
    cluster = follow(raw, after=[{"name": "raw", "runId": "first"}])
    cluster.settle()
    assert len(cluster.attempts) == 1


def test_a_failed_run_is_not_among_the_completed_runs() -> None:
    raw = make_other(attemptHistoryLimit=2)
    complete(raw, 64)
    cluster = follow(raw, after=[{"name": "raw", "runId": "first"}])
    for number in range(4):
        raw.edit(runId=f"run-{number}")
        raw.settle()
        finish_run(raw)
        state = "failed" if number < 1 else "has not started"
        cluster.settle()
        assert cluster.status.state == f"waits for raw (run 'first' {state})"
    assert raw.status.completed_runs == ("run-0", "run-1")
    assert not cluster.attempts
