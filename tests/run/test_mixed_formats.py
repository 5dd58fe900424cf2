"""Runs over files of several formats: all outputs have one schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline_runs import Passes
from strandline.run.attempt.outcome import AttemptResult
from strandline_api.outcome.exit_codes import ExitCode


@pytest.fixture
def passes(tmp_path: Path) -> Passes:
    (tmp_path / "in").mkdir()
    return Passes(tmp_path)


def run(passes: Passes, **reader: Any) -> AttemptResult:
    return passes.run(
        "rows",
        source={"use": "files", "with": {"paths": [f"{passes.folder}/in/**/*"]}},
        stages=[{"use": "read-rows", "with": {"unknownFiles": "drop"} | reader}],
        sink={"use": "parquet"},
    )


def read_output(passes: Passes) -> pa.Table:
    files = sorted(passes.find_output("rows").glob("[0-9a-f]*/*/*.parquet"))
    tables = [pq.read_table(file) for file in files]
    return pa.concat_tables(tables)  # fails if the schemas differ


def write_mixed(folder: Path) -> None:
    (folder / "a.csv").write_text("text,n,only\nx,1,007\ny,,\n")
    (folder / "b.jsonl").write_text(json.dumps({"text": "z", "n": 2, "tags": ["t"]}))
    pq.write_table(pa.table({"text": ["p"], "n": [2.5]}), folder / "c.parquet")
    (folder / "d.txt").write_text("t")
    (folder / "README.md").write_text("Read me.")


def test_columns_have_one_type_and_values_of_csv_are_parsed(passes: Passes) -> None:
    write_mixed(passes.folder / "in")
    assert run(passes).code is ExitCode.COMPLETE
    table = read_output(passes).drop_columns("key")
    assert {field.name: str(field.type) for field in table.schema} == {
        "text": "string", "n": "double", "only": "string", "tags": "list<element: string>",
    }  # fmt: skip
    rows = sorted(table.to_pylist(), key=lambda row: row["text"])
    assert [(row["text"], row["n"], row["only"], row["tags"]) for row in rows] == [
        ("p", 2.5, None, None),
        ("t", None, None, None),
        ("x", 1.0, "007", None),
        ("y", None, "", None),
        ("z", 2.0, None, ["t"]),
    ]


def test_the_sample_has_sources_of_each_format(passes: Passes) -> None:
    for number in range(100):
        (passes.folder / f"in/{number:03}.jsonl").write_text('{"text": "x"}')
    (passes.folder / "in/050.csv").write_text("text,only\ny,1\n")
    assert run(passes).code is ExitCode.COMPLETE
    assert read_output(passes).column("only").drop_null().to_pylist() == ["1"]


def test_a_value_of_csv_that_fits_no_type_of_the_others_names_the_remedy(passes: Passes) -> None:
    write_mixed(passes.folder / "in")
    (passes.folder / "in/e.csv").write_text("text,n\nw,many\n")
    result = run(passes)
    assert result.code is ExitCode.SOURCES_FAILED
    (failure,) = result.failures
    assert "e.csv#L2: 'many' in the column 'n' is not a valid float; " in failure.message
    assert "`schema: perTask`" in failure.message
