"""Runs in which single rows fail: failed rows are written to separate files and counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import failing_stages
from number_runs import NumberRuns
from pipeline_runs import Passes, crashing_at
from strandline.engine.call.stage.stage_tally import StageBrokenError
from strandline.engine.flow.flow import BROKEN_AFTER
from strandline.ledger.checks.counts import count_dead_letters
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import StagePlan
from strandline.plan.planning import plan_stage
from strandline.plan.stages.registry import find_stage
from strandline.run.revise.dead_letters.listing import list_dead_letters
from strandline.storage.outputs.manifest import list_outputs
from strandline.storage.outputs.names import DEAD_LETTERS
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.work import StageWork
from strandline_api.status.enums import Trigger

NAME, FILES, ROWS = "numbers", 4, 50
THREES = {"use": "failing_stages:RefuseThrees", "onError": "deadLetter"}
FIVES = {"use": "failing_stages:MarkFives", "onError": "deadLetter"}
TOTAL = {"use": "failing_stages:Total"}


class Numbers(NumberRuns):
    """A pipeline over files of numbers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, NAME, FILES, ROWS)

    def read(self) -> list[int]:
        """Return the output numbers in order."""
        paths = [path for path in self.output.rglob("*.parquet") if path not in self.letters]
        return sorted(n for path in paths for n in pq.read_table(path)["n"].to_pylist())

    @property
    def letters(self) -> list[Path]:
        return sorted(self.output.glob("_strandline/dead-letters/*/*/*.parquet"))

    def read_dead(self) -> dict[str, list[int]]:
        """Return the dead letters by stage."""
        dead: dict[str, list[int]] = {}
        for path in self.letters:
            for row in pq.read_table(path).to_pylist():
                dead.setdefault(row["dead_stage"], []).append(row["n"])
        return {stage: sorted(numbers) for stage, numbers in dead.items()}

    def check(self) -> Counter[str]:
        """Check that ledger and output agree. Return the dead letters by stage."""
        assert [] == self.passes.find_problems(NAME)
        with self.passes.opened(NAME) as store:
            return count_dead_letters(store).rows


@pytest.fixture
def numbers(tmp_path: Path) -> Iterator[Numbers]:
    failing_stages.MENDED.clear()
    yield Numbers(tmp_path)
    failing_stages.MENDED.clear()


ALL = range(FILES * ROWS)
PASSED = [n for n in ALL if n % 10 not in {3, 5}]


SINKS = [{"use": "parquet"}, {"use": "parquet", "with": {"targetBytes": 1_000_000}}]


@pytest.mark.parametrize("sink", SINKS)
def test_bad_rows_are_written_apart_and_the_others_are_output(
    numbers: Numbers, sink: dict[str, Any]
) -> None:
    assert ExitCode.COMPLETE is numbers.run(THREES, FIVES, TOTAL, sink=sink)
    assert "all 4 sources are finished, 40 rows are dead letters" in numbers.outcome.message
    assert PASSED == numbers.read()
    dead = {
        "refuse-threes": [n for n in ALL if n % 10 == 3],
        "mark-fives": [n for n in ALL if n % 10 == 5],
    }
    assert dead == numbers.read_dead()
    assert {stage: len(rows) for stage, rows in dead.items()} == numbers.check()
    counts = numbers.outcome.counts
    assert (200, 180, 20) == (
        counts["refuse-threes"].rows_in,
        counts["refuse-threes"].rows_out,
        counts["refuse-threes"].dead,
    )
    assert {"borne": 180} == counts["refuse-threes"].counters
    latest = next(numbers.passes.volume.rglob("total.*"))
    assert sum(PASSED) == json.loads(latest.read_bytes())


def test_outside_readers_see_no_dead_letters(numbers: Numbers) -> None:
    numbers.run(THREES)
    listed = list_outputs(numbers.output)
    assert 4 == len(listed)
    assert not any(DEAD_LETTERS in name for name in listed)
    source = {"use": "parquet-row-groups", "with": {"paths": [f"{numbers.output}/**/*.parquet"]}}
    read = {"use": "read-parquet"}
    outcome = numbers.passes.run("after", source=source, stages=[read], sink={"use": "jsonl"})
    assert (4, ExitCode.COMPLETE) == (outcome.standing.finished, outcome.code)


def test_a_changed_source_removes_its_dead_letters(numbers: Numbers) -> None:
    numbers.run(THREES)
    before = set(numbers.letters)
    numbers.write(0, range(3))
    assert ExitCode.COMPLETE is numbers.run(THREES)
    assert (4, 3) == (len(before), len(numbers.letters))
    assert set(numbers.letters) < before
    assert {"refuse-threes": 15} == numbers.check()


def test_a_removed_source_removes_its_dead_letters(numbers: Numbers) -> None:
    def run() -> ExitCode:
        source = {
            "use": "files",
            "with": {"paths": [f"{numbers.texts}/*.jsonl"], "onRemoved": "Delete"},
        }
        stages = [{"use": "read-jsonl"}, THREES]
        return numbers.passes.run(NAME, source=source, stages=stages, sink={"use": "parquet"}).code

    run()
    (numbers.texts / "0.jsonl").unlink()
    assert ExitCode.COMPLETE is run()
    assert 3 == len(numbers.letters)
    assert {"refuse-threes": 15} == numbers.check()


def test_lost_or_damaged_dead_letters_are_detected_and_made_again(numbers: Numbers) -> None:
    numbers.run(THREES)
    lost, hurt, *_ = numbers.letters
    lost.unlink()
    hurt.write_bytes(b"hurt")
    stray = hurt.with_name("00.stage.parquet")
    stray.write_bytes(b"nobody's")
    problems = numbers.passes.find_problems(NAME)
    assert 3 == len(problems)
    stray.unlink()
    numbers.run(THREES)
    assert 2 == len(numbers.passes.find_problems(NAME))
    outcome = numbers.passes.run(
        NAME,
        trigger=Trigger.REPAIR,
        source={"use": "files", "with": {"paths": [f"{numbers.texts}/*.jsonl"]}},
        stages=[{"use": "read-jsonl"}, THREES],
        sink={"use": "parquet"},
    )
    assert (ExitCode.COMPLETE, 2) == (outcome.code, outcome.standing.finished)
    assert {"refuse-threes": 20} == numbers.check()


def test_dropped_rows_are_counted_and_leave_nothing(numbers: Numbers) -> None:
    assert ExitCode.COMPLETE is numbers.run(THREES | {"onError": "drop"})
    assert ([n for n in ALL if n % 10 != 3], []) == (numbers.read(), numbers.letters)
    assert 20 == numbers.outcome.counts["refuse-threes"].dropped


def test_the_error_policy_is_not_part_of_the_run_s_identity(numbers: Numbers) -> None:
    """`onError` matters only when a row fails, so its change keeps finished sources."""
    numbers.write(0, [1, 2])
    strict = {"use": "failing_stages:RefuseThrees"}
    assert ExitCode.SOURCES_FAILED is numbers.run(strict)
    assert 1 == numbers.outcome.standing.finished
    assert ExitCode.COMPLETE is numbers.run(THREES)
    assert (3, 1) == (numbers.outcome.standing.finished, numbers.outcome.standing.skipped)
    assert {"refuse-threes": 15} == numbers.check()


@pytest.mark.parametrize(
    ("tolerance", "failed"), [(5, 0), (4, 3), ("10%", 0), ("9.99%", 3), (0, 3), ("0%", 3)]
)
def test_a_source_with_more_dead_letters_than_tolerated_fails(
    numbers: Numbers, tolerance: object, failed: int
) -> None:
    numbers.write(0, [1, 2])
    code = numbers.run(THREES | {"tolerateRows": tolerance}, FIVES)
    standing = numbers.outcome.standing
    assert (4 - failed, failed) == (standing.finished, standing.failed)
    assert (ExitCode.SOURCES_FAILED if failed else ExitCode.COMPLETE) is code
    if failed:
        share = "5 of 50" if isinstance(tolerance, str) else "5"
        (group,) = numbers.outcome.failure_groups
        assert group.example.message == f"{share} rows failed, but tolerateRows is {tolerance}"
        failing_stages.MENDED.add("threes")
        assert ExitCode.COMPLETE is numbers.run(THREES | {"tolerateRows": tolerance}, FIVES)
        assert [] == numbers.passes.find_problems(NAME)


def test_a_stage_that_fails_every_row_ends_the_run(numbers: Numbers) -> None:
    for file in range(BROKEN_AFTER + 1):
        numbers.write(file, [3, 13])
    with pytest.raises(StageBrokenError, match="'refuse-threes' failed all rows of"):
        numbers.run(THREES)


def test_reasons_of_dead_letters_are_listed_by_source_and_row(numbers: Numbers) -> None:
    numbers.run(THREES, FIVES)
    with numbers.passes.opened(NAME) as store:
        letters = list(list_dead_letters(store, str(numbers.output)))
    assert 40 == len(letters)
    first = min(letter for letter in letters if letter.stage == "refuse-threes")
    assert first.key == f"{numbers.texts}/0.jsonl row 13"
    assert first.message.startswith("ValueError: no 13 (failing_stages.py:")


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_rows_that_fail_again_keep_their_numbers(numbers: Numbers, engine: str) -> None:
    def list_keys() -> list[str]:
        with numbers.passes.opened(NAME) as store:
            return sorted(each.key for each in list_dead_letters(store, str(numbers.output)))

    numbers.run(THREES, FIVES)
    before = list_keys()
    assert f"{numbers.texts}/0.jsonl row 13" in before
    for _ in range(2):  # the second retry reads the dead letters of the first
        numbers.run(THREES, FIVES, dead_letters="refuse-threes", engine=engine)
        assert list_keys() == before


def test_readers_of_files_fail_by_file(numbers: Numbers) -> None:
    (numbers.texts / "0.jsonl").write_bytes(b'{"n": 1}\nno json\n')
    outcome = numbers.passes.run(
        NAME,
        source={"use": "files", "with": {"paths": [f"{numbers.texts}/*.jsonl"]}},
        stages=[{"use": "read-jsonl", "onError": "deadLetter"}],
        sink={"use": "parquet"},
    )
    assert ExitCode.COMPLETE is outcome.code
    (path,) = numbers.letters
    (row,) = pq.read_table(path).to_pylist()
    assert row["path"] == f"{numbers.texts}/0.jsonl"
    assert [] == numbers.passes.find_problems(NAME)


@pytest.mark.parametrize("sink", SINKS)
def test_law_mended_rows_join_their_sources(numbers: Numbers, sink: dict[str, Any]) -> None:
    """The final rows equal those of a run without failures. The files may differ."""
    numbers.run(THREES, FIVES, TOTAL, sink=sink)
    before = {path.name for path in numbers.output.rglob("*.parquet")}
    failing_stages.MENDED.add("fives")
    numbers.run(THREES, FIVES, TOTAL, sink=sink, dead_letters="mark-fives")
    assert {"refuse-threes": 20} == numbers.check()
    assert [n for n in ALL if n % 10 != 3] == numbers.read()
    # Only dead letters were processed, so the previous files are unchanged.
    assert len(before - {path.name for path in numbers.output.rglob("*.parquet")}) == 4
    failing_stages.MENDED.add("threes")
    numbers.run(THREES, FIVES, TOTAL, sink=sink, dead_letters="refuse-threes")
    assert ({}, list(ALL)) == (numbers.check(), numbers.read())
    totals = (numbers.output.parent / "latest" / "artifacts").iterdir()
    assert [sum(ALL)] == [json.loads(path.read_bytes()) for path in totals]
    assert 0 == numbers.run(THREES, FIVES, TOTAL, sink=sink)
    assert (0, 4) == (numbers.outcome.standing.finished, numbers.outcome.standing.skipped)


def test_rows_that_fail_again_stay_dead_letters(numbers: Numbers) -> None:
    numbers.run(THREES)
    numbers.run(THREES, dead_letters="refuse-threes")
    assert {"refuse-threes": 20} == numbers.check()
    assert [n for n in ALL if n % 10 == 3] == numbers.read_dead()["refuse-threes"]


def test_a_source_that_fails_again_keeps_its_previous_output(numbers: Numbers) -> None:
    numbers.run(THREES)
    before = sorted(numbers.output.rglob("*.parquet"))
    numbers.run(THREES | {"onError": "fail"}, dead_letters="refuse-threes")
    assert 4 == numbers.outcome.standing.failed
    assert before == sorted(numbers.output.rglob("*.parquet"))
    assert {"refuse-threes": 20} == numbers.check()
    assert ExitCode.COMPLETE is numbers.run(THREES)


def test_payloads_are_retried_unchanged(tmp_path: Path) -> None:
    failing_stages.MENDED.clear()
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / name).write_bytes(name.encode() * 3)
    passes = Passes(tmp_path)
    spec: dict[str, Any] = {
        "source": {"use": "files", "with": {"paths": [f"{tmp_path}/in/*"]}},
        "stages": [
            {"use": "failing_stages:OpenFile"},
            {"use": "failing_stages:Decode", "onError": "deadLetter"},
        ],
        "sink": {"use": "jsonl"},
    }
    passes.run(NAME, **spec)
    failing_stages.MENDED.add("decode")
    passes.run(NAME, dead_letters="decode", **spec)
    failing_stages.MENDED.clear()
    written = [path.read_text() for path in passes.find_output(NAME).rglob("*.jsonl")]
    assert ["aaa", "bbb"] == sorted(json.loads(line)["text"] for line in written)
    assert [] == passes.find_problems(NAME)


@pytest.mark.parametrize("at", range(0, 40, 3))
def test_law_a_crash_anywhere_leaves_rows_dead_or_joined(
    numbers: Numbers, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers.run(THREES)
    failing_stages.MENDED.add("threes")
    with crashing_at(at, monkeypatch):
        numbers.run(THREES, dead_letters="refuse-threes")
    assert ExitCode.COMPLETE is numbers.run(THREES)
    dead = numbers.read_dead().get("refuse-threes", [])
    assert sorted([*numbers.read(), *dead]) == list(ALL)
    assert len(dead) == numbers.check().total()


@pytest.mark.parametrize(
    ("use", "splits"),
    [("keep-documented", True), ("link-duplicates", False), ("join-paragraphs", False)],
)
def test_stages_that_merge_rows_fail_by_task(use: str, *, splits: bool) -> None:
    """A document without one of its lines would be a different document."""
    item = StageWork(use=use, on_error="deadLetter")
    stage = find_stage(use)
    assert splits == plan_stage(item, stage(), use).splits


def test_a_timeout_leaves_room_to_find_the_rows_that_fail() -> None:
    plan = StagePlan("rate", "rate", failing_stages.RefuseThrees(), timeout=10.0)
    limits = [replace(plan, on_error=each).limit_call(2) for each in ("fail", "drop")]
    assert [20.0, 80.0] == limits


def test_a_ledger_without_dead_letters_is_not_searched(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each count of failures would read the records of ten million sources."""
    numbers.run()

    def walk(_: Store) -> None:
        raise AssertionError("each record was read")

    with monkeypatch.context() as patch, numbers.passes.opened(NAME) as store:
        patch.setattr(Store, "list_records", walk)
        assert 0 == count_dead_letters(store).total
    numbers.run(THREES, on_change="Restart")
    assert {"refuse-threes": 20} == numbers.check()
