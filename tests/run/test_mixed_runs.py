"""The mixture does not depend on where its run is killed, and the reported shares are correct."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline_runs import Passes, crashing_at
from strandline.errors import MixtureError
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.exit_codes import ExitCode

WEIGHTS = {"one": 3, "two": 1}


def run(passes: Passes, budget: int = 20) -> None:
    """Partition both data sets, then mix them."""
    for name in WEIGHTS:
        run_one(
            passes,
            name,
            source={"use": "jsonl-files", "with": {"paths": [f"{passes.folder}/{name}-*.jsonl"]}},
            stages=[{"use": "read-jsonl"}],
            sink={
                "use": "shuffle",
                "with": {"by": "id", "partitions": 3, "seed": 7, "tokens": "n"},
            },
        )
    parts = {
        name: {"paths": [{"pipeline": name, "files": "**/*.parquet"}], "weight": weight}
        for name, weight in WEIGHTS.items()
    }
    run_one(
        passes,
        "mixed",
        source={"use": "mix", "with": {"budget": {"tokens": budget}, "parts": parts}},
        stages=[{"use": "read-mix"}],
        sink={"use": "parquet"},
    )


def run_one(passes: Passes, name: str, **spec: Any) -> None:
    result = passes.run(name, **spec)
    assert result.code is ExitCode.COMPLETE, result.message
    assert passes.find_problems(name) == []


def read(passes: Passes) -> tuple[list[list[dict[str, Any]]], dict[str, Any]]:
    """Return the rows of each file, and the reported shares."""
    paths = sorted(passes.find_output("mixed").rglob("*.parquet"))
    folder = PipelineFolder.on_volume(passes.volume, "default", "mixed").latest / "artifacts"
    (artifact,) = folder.glob("*mixture.json")
    return [pq.read_table(path).to_pylist() for path in paths], json.loads(artifact.read_text())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in WEIGHTS:
        for file in range(2):
            lines = [json.dumps({"id": f"{name}-{file}-{n}", "n": 1}) for n in range(12)]
            (tmp_path / f"{name}-{file}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def start(folder: Path, volume: str) -> Passes:
    passes = Passes(folder)
    passes.volume = folder / volume
    return passes


@pytest.mark.parametrize("at", range(60, 130, 9))
def test_law_a_kill_anywhere_changes_no_file_and_no_share(
    folder: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, killed = start(folder, "whole"), start(folder, "killed")
    run(whole)
    with crashing_at(at, monkeypatch), suppress(AssertionError):  # a source may fail
        run(killed)
    run(killed)
    assert read(killed) == read(whole)
    files, shares = read(whole)
    assert {name: share["rows"] for name, share in shares.items()} == {"one": 15, "two": 5}
    assert sorted({row["part"] for rows in files for row in rows}) == ["one", "two"]


def test_too_few_rows_end_the_run_before_anything_is_written(folder: Path) -> None:
    passes = start(folder, "volume")
    with pytest.raises(
        MixtureError, match=r"one has 24 of 75; .* the largest possible budget is 32"
    ):
        run(passes, budget=100)
    assert not list(passes.find_output("mixed").rglob("*.parquet"))
