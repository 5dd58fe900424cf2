"""A run infers its schema once and stores it, so all files open as one data set."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pad
import pyarrow.parquet as pq
import pytest
from datasets import Features, load_dataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline_runs import Passes
from strandline import Pipeline, stages
from strandline.plan.errors import StrandlineError
from strandline.run.attempt.outcome import AttemptResult
from strandline_api.outcome.exit_codes import ExitCode

NAME = "rows"
Rows = Sequence[Mapping[str, Any]]


@pytest.fixture
def passes(tmp_path: Path) -> Passes:
    return Passes(tmp_path)


def put(passes: Passes, name: str, *rows: Mapping[str, Any]) -> None:
    path = passes.folder / "in" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def run(passes: Passes, schema: Any, on_change: str = "Fail", **reader: Any) -> AttemptResult:
    return passes.run(
        NAME,
        on_change,
        source={"use": "jsonl-files", "with": {"paths": [f"{passes.folder}/in/*.jsonl"]}},
        stages=[{"use": "read-jsonl", "with": {"schema": schema, **reader}}],
        sink={"use": "parquet"},
    )


def list_files(passes: Passes) -> list[str]:
    return [str(path) for path in sorted(passes.find_output(NAME).rglob("*.parquet"))]


def list_notes(passes: Passes) -> set[object]:
    schemas = {str(pq.read_schema(file)) for file in list_files(passes)}
    assert len(schemas) == 1
    return {row["note"] for file in list_files(passes) for row in pq.read_table(file).to_pylist()}


def test_types_of_the_first_sources_apply_to_all(passes: Passes) -> None:
    put(passes, "a.jsonl", {"note": None, "score": 1, "tags": [], "meta": {"a": 1}})
    put(passes, "b.jsonl", {"note": "x", "score": 1.5, "tags": [1], "meta": {"b": "y"}})
    put(passes, "c.jsonl", {"score": 2})
    assert run(passes, {"infer": 2}).code is ExitCode.COMPLETE
    assert list_notes(passes) == {None, "x"}
    scores = duckdb.read_parquet(list_files(passes)).project("score").fetchall()
    assert sorted(scores) == [(1.0,), (1.5,), (2.0,)]


def test_a_later_source_has_the_same_schema(passes: Passes) -> None:
    put(passes, "b.jsonl", {"note": "x", "score": 1.5})
    assert run(passes, {"infer": 1}).code is ExitCode.COMPLETE
    put(passes, "a.jsonl", {"score": 1})  # now the first source by name
    assert run(passes, {"infer": 1}).code is ExitCode.COMPLETE
    assert list_notes(passes) == {None, "x"}


def test_a_value_that_does_not_fit_fails_only_its_source(passes: Passes) -> None:
    put(passes, "a.jsonl", {"note": "x"})
    put(passes, "b.jsonl", {"note": 7})
    result = run(passes, {"infer": 1})
    assert result.code is ExitCode.SOURCES_FAILED
    (failure,) = result.failures
    assert "b.jsonl#L1: the column 'note' has int, but the schema has text" in failure.message
    assert list_notes(passes) == {"x"}


def test_a_schema_binds_only_after_a_source_is_finished(
    passes: Passes,
) -> None:
    put(passes, "a.jsonl", {"note": "x"})
    put(passes, "b.jsonl", {"note": 7})
    with pytest.raises(StrandlineError) as caught:
        run(passes, {"infer": 2})
    words = r"column 'note' is int in \S*b\.jsonl and text in earlier sources; declare it under"
    assert re.search(words, str(caught.value))
    put(passes, "a.jsonl", {"note": 6})
    assert run(passes, {"infer": 2}).code is ExitCode.COMPLETE
    assert list_notes(passes) == {6, 7}


def test_a_restarted_pipeline_infers_its_schema_again(passes: Passes) -> None:
    put(passes, "a.jsonl", {"note": "x"})
    assert run(passes, {"infer": 1}).code is ExitCode.COMPLETE
    put(passes, "a.jsonl", {"note": 5})
    assert run(passes, {"infer": 1}, "Restart", maxRows=5).code is ExitCode.COMPLETE
    assert list_notes(passes) == {5}


def test_sources_that_cannot_be_read_or_are_empty_do_not_count(passes: Passes) -> None:
    put(passes, "a.jsonl")
    (passes.folder / "in/b.jsonl").write_text("[1,\n")
    put(passes, "c.jsonl", {"note": "x"})
    result = run(passes, {"infer": 1})
    assert result.code is ExitCode.SOURCES_FAILED
    assert result.standing.finished == 2
    assert list_notes(passes) == {"x"}


def test_a_run_without_readable_sources_reports_an_error(passes: Passes) -> None:
    put(passes, "a.jsonl")
    (passes.folder / "in/a.jsonl").write_text("[1,\n")
    with pytest.raises(StrandlineError, match=r"no source can be read; .*a\.jsonl"):
        run(passes, {"infer": 1})


def test_a_run_without_a_ledger_infers_too(tmp_path: Path) -> None:
    passes = Passes(tmp_path)
    put(passes, "a.jsonl", {"score": 1})
    put(passes, "b.jsonl", {"score": 1.5})
    pipeline = Pipeline(
        "rows",
        source=stages.JsonlFiles(paths=[f"{tmp_path}/in/*.jsonl"]),
        stages=[stages.ReadJsonl(schema={"infer": 2})],
        sink=stages.ParquetSink(path=str(tmp_path / "out")),
    )
    assert pipeline.run(engine="inline").code is ExitCode.COMPLETE
    kinds = {pq.read_schema(path).field("score").type for path in tmp_path.rglob("*.parquet")}
    assert kinds == {pa.float64()}


def test_an_inferring_reader_must_be_the_first_stage(passes: Passes) -> None:
    put(passes, "a.jsonl", {"note": "x"})
    reader = {"use": "read-jsonl", "with": {"schema": {"infer": 1}}}
    with pytest.raises(ValueError, match=r"infers its schema .* must be the first"):
        passes.run(
            NAME,
            source={"use": "files", "with": {"paths": [f"{passes.folder}/in/*.jsonl"]}},
            stages=[{"use": "read-files", "with": {"onError": "drop"}}, reader],
            sink={"use": "parquet"},
        )


NUMBERS = st.integers(-5, 5) | st.sampled_from([0.5, 2.25])
OBJECTS = st.dictionaries(st.sampled_from("xyz"), NUMBERS | st.none(), min_size=1)
COLUMNS = {
    "note": st.none() | st.text("ab"),
    "score": st.none() | NUMBERS,
    "tags": st.none() | st.lists(NUMBERS, max_size=2),
    "meta": st.none() | OBJECTS,
    "parts": st.none() | st.lists(OBJECTS, max_size=2),
}
ROWS = st.fixed_dictionaries({}, optional=COLUMNS)
FILES = st.lists(st.lists(ROWS, min_size=1, max_size=4), min_size=1, max_size=4)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(files=FILES)
def test_law_the_files_of_a_run_open_as_one_data_set(
    files: Sequence[Rows], tmp_path_factory: pytest.TempPathFactory
) -> None:
    passes = Passes(tmp_path_factory.mktemp("one"))
    for number, rows in enumerate(files):
        put(passes, f"{number}.jsonl", *rows)
    assert run(passes, {"infer": len(files)}).code is ExitCode.COMPLETE
    paths = list_files(passes)
    expected = sorted(
        (row.get("score") for rows in files for row in rows),
        key=lambda score: (score is None, score),
    )
    seen = {
        "arrow": pad.dataset(paths).to_table().to_pylist(),
        "polars": pl.read_parquet(paths).to_dicts(),
        "datasets": _read_as_dataset(passes, paths),
    }
    for rows in seen.values():
        assert sort_scores(row.get("score") for row in rows) == expected
    relation = duckdb.read_parquet(paths)
    assert set(relation.columns) == set(pq.read_schema(paths[0]).names)
    assert len(relation.fetchall()) == len(expected)


def sort_scores(scores: Iterable[float | None]) -> list[float | None]:
    return sorted(scores, key=lambda score: (score is None, score or 0))


def _read_as_dataset(passes: Passes, paths: list[str]) -> list[dict[str, Any]]:
    features = Features.from_arrow_schema(pq.read_schema(paths[0]))
    loaded = load_dataset(
        "parquet",
        data_files=paths,
        split="train",
        features=features,
        cache_dir=str(passes.folder / "cache"),
    )
    return list(loaded)
