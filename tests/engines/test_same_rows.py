"""Compares results of the scenarios `rows` and `payloads` with independently computed values.

Other engines give the same results as the reference engine, as test_same_results.py tests. These
tests therefore read only the reference engine.
"""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from conformance import REFERENCE, ConformanceRuns, StoredRun, every
from conformance_scenarios import BROKEN, FILES, MISSING, fields, odd, payloads, rows
from conformance_stages import HALF, ROWS_PER_TASK
from strandline.storage.outputs.names import DEAD_LETTERS
from strandline_api.outcome.exit_codes import ExitCode

GROUP, PAIR = 4, 2
# By key of each odd source: the stage and the beginning of the expected message.
ODD_FAILURES = {
    "mute": ("odd", "MuteError (odd_stages.py:"),
    "surrogate": ("odd", "ValueError: half \\ud800 (odd_stages.py:"),
    "exit": ("odd", "SystemExit: 3 (odd_stages.py:"),
    "generator exit": ("odd", "GeneratorExit (odd_stages.py:"),
    "unpicklable": ("odd", "its result can't be pickled: SystemExit: 3"),
    "unreadable": ("printing", "its input can't be unpickled: ValueError: no more"),
    "lock": ("odd", "its result can't be pickled: TypeError: cannot pickle '_thread.lock'"),
    "odd failure": ("odd", "half \\ud800"),
    "deep": ("odd", "RecursionError: maximum recursion depth exceeded"),
    "late": ("odd", "ValueError: too late (odd_stages.py:"),
    "closed": ("odd", "it closed stdout, which other code writes to; leave it open"),
    "key \\ud800": (
        "sources",
        "the source's key contains an unpaired surrogate, which UTF-8 can't encode",
    ),
    "locked": ("sources", "the listed source can't be pickled: TypeError: cannot pickle"),
    "unread": ("odd", "its input can't be unpickled: ValueError: no more"),
}


@pytest.fixture
def first(runs: ConformanceRuns) -> StoredRun:
    """Return the first attempt of `rows` on the reference engine."""
    return runs.get(rows, REFERENCE)["first"]


def list_tasks() -> Iterator[tuple[str, int, list[int]]]:
    """Yield the file, slot, and numbers of each task that is not filtered."""
    for name, numbers in FILES.items():
        for slot, start in enumerate(range(0, len(numbers), ROWS_PER_TASK)):
            if slot % 7 != 5:
                yield name, slot, numbers[start : start + ROWS_PER_TASK]


def list_tables() -> Iterator[list[int]]:
    """Yield the numbers of each output file."""
    for _, tasks in groupby(list_tasks(), lambda task: (task[0], task[1] // GROUP)):
        joined = [n for _, _, numbers in tasks for n in numbers if n % 10 != 3 and n != 70]
        size = HALF * PAIR
        yield from (joined[at : at + size] for at in range(0, len(joined), size))


def read_tables(run: StoredRun, *, dead: bool) -> list[list[int]]:
    """Return the numbers in each file, either of dead letters or of other rows."""
    return sorted(
        pq.read_table(io.BytesIO(content))["n"].to_pylist()
        for name, content in run.outputs.items()
        if name.endswith(".parquet") and (DEAD_LETTERS in name) is dead
    )


def test_fan_outs_filters_and_groups_give_the_expected_files(first: StoredRun) -> None:
    assert read_tables(first, dead=False) == sorted(list_tables())


def test_dead_letters_are_the_rows_that_raised(first: StoredRun) -> None:
    dead = sorted(n for table in read_tables(first, dead=True) for n in table)
    numbers = [n for _, _, each in list_tasks() for n in each]
    assert dead == sorted(n for n in numbers if n % 10 == 3 or n == 70)
    assert first.result.counts["reject-threes"].dead == len(dead) - 1
    assert first.result.counts["reject-seventy"].dead == 1


def test_artifacts_hold_each_task_once_in_order(first: StoredRun) -> None:
    assert first.artifacts.keys() == {"key-list.merged", "large.json", "line-moments.json"}
    lines = first.artifacts["key-list.merged"].decode().splitlines()
    expected = [
        (name, sum(n % 10 != 3 for n in numbers))
        for name, _, numbers in list_tasks()
        if any(n % 10 != 3 for n in numbers)
    ]
    assert sorted(lines) == sorted(f"{name}\t{count}" for name, count in expected)
    moments = json.loads(first.artifacts["line-moments.json"])
    assert moments["count"] == sum(count for _, count in expected)
    # The stage `large` merges its pieces in a different order, so its sums are rounded differently.
    assert json.loads(first.artifacts["large.json"]) == pytest.approx(moments)


def test_empty_sources_finish_and_unreadable_sources_fail_alone(first: StoredRun) -> None:
    standing = first.result.standing
    assert first.result.code is ExitCode.SOURCES_FAILED
    assert (standing.finished, standing.failed, standing.unfinished) == (len(FILES), 2, 0)
    assert first.failures.keys() == {BROKEN, MISSING}
    assert first.failures[MISSING].message.startswith("FileNotFoundError")
    assert first.failures[BROKEN].message.startswith("JSONDecodeError")


@every
def test_the_next_attempt_runs_the_failed_sources_alone(engine: str, runs: ConformanceRuns) -> None:
    attempts = runs.get(rows, engine)
    first, again = attempts["first"], attempts["again"]
    assert again.result.attempt == first.result.attempt + 1
    assert (again.result.standing.skipped, again.result.standing.failed) == (len(FILES), 2)
    assert {each.times for each in again.failures.values()} == {2}
    assert again.result.counts["cut-numbers"].tasks_in == 2
    assert again.outputs == first.outputs
    assert again.artifacts == first.artifacts


@every
def test_a_complete_run_leaves_nothing_to_do(engine: str, runs: ConformanceRuns) -> None:
    again = runs.get(fields, engine)["again"].result
    assert again.code is ExitCode.COMPLETE
    assert again.message == f"nothing left to do: all {again.total} sources are finished"


def test_metrics_of_the_sink_add_up_to_its_files(first: StoredRun) -> None:
    stages = {stage for _, stage in first.efforts}
    assert stages == first.result.counts.keys() - {first.plan.source.name}
    written = sum(each.size for (_, stage), each in first.efforts.items() if stage == "parquet")
    names = [
        name for name in first.outputs if DEAD_LETTERS not in name and name.endswith(".parquet")
    ]
    assert written == sum(len(first.outputs[name]) for name in names)


def test_groups_of_groups_join_the_neighbors_and_arrays_are_read_only(
    runs: ConformanceRuns,
) -> None:
    first = runs.get(payloads, REFERENCE)["first"]
    texts = sorted(ast.literal_eval(content.decode()) for content in first.outputs.values())
    groups = [tuple(range(number)) for number in (1, 2, 3)]
    assert texts == sorted(
        [[(*group, slot), (*group, slot + 1)], slot + 1, "read-only"]
        for group in groups
        for slot in (0, 2)
    )


@every
def test_without_a_ledger_only_the_output_is_written(engine: str, runs: ConformanceRuns) -> None:
    run = runs.get(payloads, engine)["first"]
    assert (run.result.code, run.result.standing.finished) == (ExitCode.COMPLETE, 4)
    folder = run.result.output.rpartition("/")[0]
    assert [path.name for path in Path(folder).iterdir()] == ["output"]


@every
def test_each_odd_source_fails_alone_with_its_stage_and_message(
    engine: str, runs: ConformanceRuns
) -> None:
    run = runs.get(odd, engine)["first"]
    standing = run.result.standing
    assert (standing.finished, standing.failed, standing.unfinished) == (14, 14, 0)
    assert run.result.incidents == ()
    assert run.failures.keys() == ODD_FAILURES.keys()
    for key, (stage, message) in ODD_FAILURES.items():
        assert run.failures[key].stage == stage, (key, run.failures[key])
        assert run.failures[key].message.startswith(message), (key, run.failures[key])
