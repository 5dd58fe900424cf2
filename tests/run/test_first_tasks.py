"""If all rows of the first task fail, the run ends and keeps none of the output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline_runs import Passes
from strandline.engine.call.stage.stage_tally import ENOUGH_ROWS, StageBrokenError
from strandline.ledger.checks.counts import count_dead_letters
from strandline.run.attempt.outcome import AttemptResult
from strandline_api.outcome.exit_codes import ExitCode

NAME, FILES = "first", 3
ENGINES = pytest.mark.parametrize("engine", ["inline", "processes"])


class Rows:
    """A pipeline over files with a column `text`, and a stage that reads a named column."""

    def __init__(self, folder: Path, rows: int = 30, files: int = FILES) -> None:
        self.passes, self.folder = Passes(folder), folder / "in"
        self.folder.mkdir()
        for file in range(files):
            self.write(file, "text", rows)

    def write(self, file: int, column: str, rows: int) -> None:
        lines = [json.dumps({column: f"{file}-{row}"}) + "\n" for row in range(rows)]
        (self.folder / f"{file}.jsonl").write_text("".join(lines))

    def run(self, column: str = "txt", engine: str = "inline", **more: Any) -> AttemptResult:
        source = {"use": "files", "with": {"paths": [f"{self.folder}/*.jsonl"]}}
        stage = {"use": "normalise-text", "with": {"column": column}, **more}
        stages = [{"use": "read-jsonl", "with": {"schema": "perTask"}}, stage]
        sink = {"use": "parquet"}
        return self.passes.run(
            NAME, "Continue", engine=engine, source=source, stages=stages, sink=sink
        )

    def count_dead(self) -> int:
        with self.passes.opened(NAME) as store:
            return count_dead_letters(store).total


@ENGINES
@pytest.mark.parametrize("on_error", ["deadLetter", "drop"])
def test_a_misspelled_column_ends_the_run_at_its_first_task(
    tmp_path: Path, engine: str, on_error: str
) -> None:
    rows = Rows(tmp_path)
    with pytest.raises(StageBrokenError) as caught:
        rows.run(engine=engine, onError=on_error)
    words = str(caught.value)
    assert words.startswith("stage 'normalise-text' failed all 30 rows of its first task, of ")
    assert "there is no column 'txt'; the columns are: key, text" in words
    assert "correct the stage or its input columns, and run again" in words
    assert caught.value.is_lasting
    assert rows.count_dead() == 0
    outcome = rows.run("text", engine, onError=on_error)
    assert (outcome.code, outcome.standing.finished) == (ExitCode.COMPLETE, FILES)
    assert rows.passes.read_rows(NAME, "text").total() == 90
    assert rows.count_dead() == 0


@ENGINES
def test_a_source_without_the_column_is_reported_at_once_and_skipped_later(
    tmp_path: Path, engine: str
) -> None:
    rows = Rows(tmp_path, files=0)
    rows.write(0, "body", 2)
    with pytest.raises(StageBrokenError, match="run again: the other sources are then processed"):
        rows.run("text")
    rows.write(1, "text", 30)
    outcome = rows.run("text", engine)
    standing = outcome.standing
    assert outcome.code is ExitCode.SOURCES_FAILED
    assert (standing.finished, standing.failed) == (1, 1)
    assert rows.passes.read_rows(NAME, "text").total() == 30


def test_rows_that_all_fail_are_dead_letters_if_they_are_tolerated(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    for tolerance in ("99%", 29):
        with pytest.raises(StageBrokenError, match="set `tolerateRows: 100%`"):
            rows.run(onError="deadLetter", tolerateRows=tolerance)
    outcome = rows.run(onError="deadLetter", tolerateRows="100%")
    assert (outcome.code, rows.count_dead()) == (ExitCode.COMPLETE, 90)
    # A retry of failed rows gives no new information about the stage.
    again = rows.passes.run(
        NAME,
        "Continue",
        dead_letters="normalise-text",
        source={"use": "files", "with": {"paths": [f"{rows.folder}/*.jsonl"]}},
        stages=[
            {"use": "read-jsonl", "with": {"schema": "perTask"}},
            {"use": "normalise-text", "with": {"column": "txt"}, "onError": "deadLetter"},
        ],
        sink={"use": "parquet"},
    )
    assert (again.code, rows.count_dead()) == (ExitCode.COMPLETE, 90)


@pytest.mark.parametrize(("rows", "is_broken"), [(ENOUGH_ROWS, True), (ENOUGH_ROWS - 1, False)])
def test_any_reason_counts_if_enough_rows_have_it(
    tmp_path: Path, rows: int, *, is_broken: bool
) -> None:
    data = Rows(tmp_path, rows)
    spec: dict[str, Any] = {
        "source": {"use": "files", "with": {"paths": [f"{data.folder}/*.jsonl"]}},
        "stages": [
            {"use": "read-jsonl"},
            {"use": "failing_stages:RefuseTexts", "onError": "deadLetter"},
        ],
        "sink": {"use": "parquet"},
    }
    if is_broken:
        with pytest.raises(StageBrokenError, match=r"ValueError: no text like \d-0 "):
            data.passes.run(NAME, **spec)
        return
    assert data.passes.run(NAME, **spec).code is ExitCode.COMPLETE
    assert data.count_dead() == FILES * rows
