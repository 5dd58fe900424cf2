"""Runs without a schema setting infer the schema from a sample, and readers open all files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow.dataset as pad
import pyarrow.parquet as pq
import pytest
from datasets import Features, List, Value, load_dataset
from pyarrow import feather

from pipeline_runs import Passes
from strandline.plan.errors import StrandlineError
from strandline.run.attempt.outcome import AttemptResult
from strandline_api.outcome.exit_codes import ExitCode

NAME = "rows"
# Sources with nulls and an empty list, with text and a float, and with added and missing columns.
SOURCES: list[list[dict[str, Any]]] = [
    [{"id": 1, "date": None, "score": 1, "tags": []}, {"id": 2, "date": None, "score": 2}],
    [{"id": 3, "date": "2026-01-02", "score": 0.5, "tags": ["a"]}],
    [{"id": 4, "score": 7, "only": "here"}],
]
ALL = [1, 2, 3, 4]
# JSON lines have no types, so a reader of a single file needs the types as an argument.
TYPES = {"key": "string", "id": "int64", "date": "string", "score": "float64", "only": "string"}


@pytest.fixture
def passes(tmp_path: Path) -> Passes:
    return Passes(tmp_path)


def put(passes: Passes, name: str, *rows: Mapping[str, Any]) -> None:
    path = passes.folder / "in" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def put_sources(passes: Passes) -> None:
    for at, rows in enumerate(SOURCES):
        put(passes, f"{at}.jsonl", *rows)


def run(
    passes: Passes, sink: str = "parquet", on_change: str = "Fail", **reader: Any
) -> AttemptResult:
    return passes.run(
        NAME,
        on_change,
        source={"use": "jsonl-files", "with": {"paths": [f"{passes.folder}/in/*.jsonl"]}},
        stages=[{"use": "read-jsonl", "with": reader}],
        sink={"use": sink},
    )


def list_files(passes: Passes, suffix: str) -> list[str]:
    found = sorted(passes.find_output(NAME).rglob(f"*{suffix}"))
    return [str(path) for path in found if "_strandline" not in path.parts]


def read_with_datasets(kind: str, **columns: Any) -> Callable[[list[str]], list[int]]:
    types = {name: Value(kind) for name, kind in TYPES.items()} | columns
    features = Features(types) if columns else None
    options = {"split": "train", "features": features}
    return lambda files: load_dataset(kind, data_files=files, **options)["id"]


def read_with_pandas(read: Callable[..., pd.DataFrame], **options: Any) -> Any:
    return lambda files: pd.concat(read(file, **options) for file in files)["id"].tolist()


READERS: dict[tuple[str, str], Callable[[list[str]], Any]] = {
    ("parquet", "datasets"): read_with_datasets("parquet"),
    ("parquet", "polars"): lambda files: pl.read_parquet(files)["id"].to_list(),
    ("parquet", "duckdb"): lambda files: _list_ids(duckdb.read_parquet(files)),
    ("parquet", "pandas"): lambda files: pd.read_parquet(files)["id"].tolist(),
    ("parquet", "pyarrow"): lambda files: pad.dataset(files).to_table()["id"].to_pylist(),
    ("jsonl", "datasets"): read_with_datasets("json", tags=List(Value("string"))),
    ("jsonl", "polars"): lambda files: pl.read_ndjson(
        files, schema_overrides={"only": pl.String, "date": pl.String, "tags": pl.List(pl.String)}
    )["id"].to_list(),
    ("jsonl", "duckdb"): lambda files: _list_ids(duckdb.read_json(files)),
    ("jsonl", "pandas"): read_with_pandas(pd.read_json, lines=True),
    ("csv", "datasets"): read_with_datasets("csv", tags=Value("string")),
    ("csv", "polars"): lambda files: pl.read_csv(files)["id"].to_list(),
    ("csv", "duckdb"): lambda files: _list_ids(duckdb.read_csv(files)),
    ("csv", "pandas"): read_with_pandas(pd.read_csv),
    ("arrow", "datasets"): read_with_datasets("arrow"),
    ("arrow", "polars"): lambda files: pl.concat(pl.read_ipc(file) for file in files)[
        "id"
    ].to_list(),
    ("arrow", "pyarrow"): lambda files: (
        pad.dataset(files, format="arrow").to_table()["id"].to_pylist()
    ),
    ("arrow", "pandas"): read_with_pandas(feather.read_feather),
}


def _list_ids(relation: duckdb.DuckDBPyRelation) -> list[int]:
    return [number for (number,) in relation.project("id").fetchall()]


@pytest.mark.parametrize(("sink", "reader"), READERS)
def test_every_reader_opens_files_of_every_sink(passes: Passes, sink: str, reader: str) -> None:
    put_sources(passes)
    assert run(passes, sink).code is ExitCode.COMPLETE
    files = list_files(passes, f".{sink}")
    assert len(files) == len(SOURCES)
    assert sorted(READERS[sink, reader](files)) == ALL


def test_types_of_each_task_are_kept_on_request(passes: Passes) -> None:
    put_sources(passes)
    assert run(passes, schema="perTask").code is ExitCode.COMPLETE
    schemas = {str(pq.read_schema(file)) for file in list_files(passes, ".parquet")}
    assert len(schemas) == len(SOURCES)


def test_a_value_that_does_not_fit_fails_its_source_with_a_remedy(passes: Passes) -> None:
    put(passes, "a.jsonl", {"note": 1})
    assert run(passes).code is ExitCode.COMPLETE
    put(passes, "b.jsonl", {"note": "x"})
    put(passes, "c.jsonl", {"note": 2, "other": 3})
    put(passes, "d.jsonl", {"note": None})
    result = run(passes)
    assert result.code is ExitCode.SOURCES_FAILED
    first, second = sorted(failure.message for failure in result.failures)
    assert "b.jsonl#L1: the column 'note' has text, but the schema has int" in first
    assert "c.jsonl#L1: the column 'other' has values, and is not in the schema" in second
    for message in (first, second):
        assert "inferred from a sample of the sources" in message
        assert "`schema: perTask`" in message


def test_one_text_among_the_numbers_of_a_file_fails_that_file(passes: Passes) -> None:
    put(passes, "a.jsonl", *({"note": number} for number in range(150)), {"note": "many"})
    put(passes, "b.jsonl", {"note": 1})
    result = run(passes)
    assert result.code is ExitCode.SOURCES_FAILED
    (failure,) = result.failures
    assert "a.jsonl#L151: the column 'note' has text, but the schema has int" in failure.message


def test_a_line_that_does_not_fit_is_dropped_and_counted(passes: Passes) -> None:
    put(passes, "a.jsonl", {"note": 1})
    assert run(passes, badLines="drop").code is ExitCode.COMPLETE
    put(passes, "b.jsonl", {"note": "x"}, {"note": 3})
    result = run(passes, badLines="drop")
    assert result.code is ExitCode.COMPLETE
    counted = {name: n for name, n in result.counts["read-jsonl"].counters.items() if n}
    assert [n for name, n in counted.items() if name.startswith("dropped: ")] == [1]


def test_incompatible_types_end_the_run_before_it_begins(
    passes: Passes,
) -> None:
    put(passes, "a.jsonl", {"note": "x"})
    put(passes, "b.jsonl", {"note": 7})
    words = r"column 'note' is int in \S*b\.jsonl and text in earlier sources; declare it .*perTask"
    with pytest.raises(StrandlineError) as caught:
        run(passes)
    assert re.search(words, str(caught.value))
    assert run(passes, schema="perTask").code is ExitCode.COMPLETE


def test_the_sample_has_first_last_and_middle_sources(passes: Passes) -> None:
    for at in range(100):
        put(passes, f"{at:03}.jsonl", {"id": at} if at < 99 else {"id": at, "last": "x"})
    assert run(passes).code is ExitCode.COMPLETE
    (columns,) = {tuple(pl.read_parquet(file).columns) for file in list_files(passes, ".parquet")}
    assert columns == ("key", "id", "last")


def test_a_ledger_begun_without_a_schema_continues_without_a_schema(
    passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(passes, "a.jsonl", {"note": "x"})
    with monkeypatch.context() as before:
        before.setattr(
            "strandline.run.attempt.phases.schema.settle_schema", lambda plan, *_, **__: plan
        )
        assert run(passes).code is ExitCode.COMPLETE
    put(passes, "b.jsonl", {"note": 7})
    assert run(passes).code is ExitCode.COMPLETE
    with pytest.raises(StrandlineError, match="can't infer a schema"):
        run(passes, on_change="Restart", maxRows=5)
