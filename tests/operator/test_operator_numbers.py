"""The served metrics: each known name has a counter, and no label has unbounded values."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from prometheus_client import generate_latest

from strandline_api.status.pipeline_status import Progress
from strandline_operator.metrics.numbers import Numbers
from strandline_operator.model.plan import Count, MetricName


def read(numbers: Numbers) -> dict[str, float]:
    lines = generate_latest(numbers.registry).decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


@pytest.mark.parametrize("literal", get_args(MetricName))
def test_every_countable_name_is_served(literal: Any) -> None:
    names = get_args(literal)
    numbers = Numbers()
    before = read(numbers)
    for name in names:
        numbers.note(Count(name, "OOMKilled", 2.0))
    after = read(numbers)
    changed = {key for key in after if after[key] != before.get(key)}
    for name in names:
        assert any(key.startswith(f"strandline_{name}") for key in changed)


def test_counters_carry_the_cause_and_nothing_else_becomes_one() -> None:
    numbers = Numbers()
    numbers.note(Count("attempts", "OOMKilled"))
    numbers.note(Count("attempts", "OOMKilled"))
    numbers.note(Count("attempts", "Completed"))
    numbers.note(Count("attempts", "corpus-3"))
    numbers.note(Count("attempt_seconds", "Killed", 120.0))
    numbers.note(Count("attempt_delay_seconds", "", -1.0))

    found = read(numbers)
    assert found['strandline_attempts_total{cause="OOMKilled"}'] == 2
    assert found['strandline_attempts_total{cause="Completed"}'] == 1
    assert found['strandline_attempts_total{cause=""}'] == 1
    assert found['strandline_attempt_seconds_sum{cause="Killed"}'] == 120
    assert found['strandline_attempt_delay_seconds_sum{cause=""}'] == 0
    assert not any("corpus" in name for name in found)


def test_passes_and_requests_are_counted() -> None:
    numbers = Numbers()
    numbers.note_pass(0.2, "done")
    numbers.note_pass(0.3, "failed")
    numbers.note_request("GET", "pods", 200)

    found = read(numbers)
    assert found['strandline_reconcile_duration_seconds_count{outcome="done"}'] == 1
    assert found["strandline_reconcile_errors_total"] == 1
    assert found['strandline_api_requests_total{code="200",resource="pods",verb="GET"}'] == 1


def test_sources_are_summed_over_active_runs() -> None:
    numbers = Numbers()
    numbers.watch_queue(lambda: 3, lambda: 1.5)
    numbers.watch_age("pods", lambda: 12.0)
    numbers.note_progress("one", Progress(finished=3, failed=1))
    numbers.note_progress("two", Progress(finished=4))
    numbers.note_progress("two", Progress(finished=5))
    numbers.note_progress("three", None)

    assert read(numbers)['strandline_sources{state="finished"}'] == 8
    numbers.note_progress("one", None)
    found = read(numbers)
    assert found['strandline_sources{state="finished"}'] == 5
    assert found['strandline_sources{state="failed"}'] == 0
    assert found["strandline_queue_depth"] == 3
    assert found["strandline_queue_lag_seconds"] == 1.5
    assert found['strandline_watch_age_seconds{resource="pods"}'] == 12


def test_pipelines_are_counted_by_reason_of_their_wait() -> None:
    numbers = Numbers()
    numbers.watch_queue(lambda: 0, lambda: 0)
    for pipeline, reason in (("one", "Running"), ("two", "TeardownOverdue"), ("one", "Draining")):
        numbers.note_reason(pipeline, reason)

    found = read(numbers)
    assert found['strandline_pipelines{reason="TeardownOverdue"}'] == 1
    assert found['strandline_pipelines{reason="Draining"}'] == 1
    assert found['strandline_pipelines{reason="Running"}'] == 0
    numbers.note_reason("two", "")
    assert read(numbers)['strandline_pipelines{reason="TeardownOverdue"}'] == 0


def test_pipelines_are_counted_by_result_of_their_last_run() -> None:
    numbers = Numbers()
    over = "strandline_pipelines_over"
    for pipeline, result in (("one", "OOMKilled"), ("two", "InvalidSpec"), ("three", "OOMKilled")):
        numbers.note_result(pipeline, "team", result)
    numbers.note_result("four", "corpora", "Completed")

    found = read(numbers)
    assert found[f'{over}{{pipeline_namespace="team",result="OOMKilled"}}'] == 2
    assert found[f'{over}{{pipeline_namespace="team",result="InvalidSpec"}}'] == 1
    assert found[f'{over}{{pipeline_namespace="corpora",result="Completed"}}'] == 1
    numbers.note_result("one", "team", "")  # another run begins
    numbers.note_result("three", "team", "Completed")
    numbers.note_result("two", "team", "")  # the pipeline is deleted
    numbers.note_result("four", "corpora", "no such cause")
    left = {name: number for name, number in read(numbers).items() if name.startswith(over)}
    assert left == {
        f'{over}{{pipeline_namespace="team",result="Completed"}}': 1,
        f'{over}{{pipeline_namespace="corpora",result=""}}': 1,
    }


def test_an_unknown_reason_makes_no_series() -> None:
    numbers = Numbers()
    numbers.watch_queue(lambda: 0, lambda: 0)
    before = read(numbers)
    numbers.note_reason("one", "corpus is slow")
    assert read(numbers).keys() == before.keys()
