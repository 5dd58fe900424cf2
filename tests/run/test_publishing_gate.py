"""A run that misses a requirement of its pipeline is never published to readers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from strandline.ledger.access.lease import OnChange
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.run.manifest.manifest import read_manifest
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.latest import resolve
from strandline_api.documents.problems import SpecError
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import name_cause
from strandline_api.outcome.exit_codes import ExitCode

TEXTS: list[list[str | None]] = [["tide", "moon", "tide"], ["sand", None, "reef"]]
MEASURED = {"stage": "measure-fields", "column": "text"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a folder with two files of three rows each."""
    for at, texts in enumerate(TEXTS):
        lines = [json.dumps({"text": text, "score": index / 4}) for index, text in enumerate(texts)]
        (tmp_path / f"{at}.jsonl").write_text("\n".join(lines))
    return tmp_path


def make_config(root: Path, require: dict[str, Any] | None, sink: str = "parquet") -> AttemptConfig:
    spec: dict[str, Any] = {
        "source": {"use": "jsonl-files", "with": {"paths": [str(root / "*.jsonl")]}},
        "stages": [{"use": "read-jsonl"}, {"use": "measure-fields"}],
        "sink": {"use": sink},
    }
    if require is not None:
        spec["publish"] = {"require": require}
    head = {"apiVersion": "strandline.dev/v1alpha1", "kind": "CurationPipeline"}
    path = root / "gated.yaml"
    path.write_text(yaml.safe_dump({**head, "metadata": {"name": "gated"}, "spec": spec}))
    manifest = read_manifest(path, ())
    publishing = manifest.pipeline.spec.publish
    return AttemptConfig(manifest.plan, root / "data", engine="inline", publishing=publishing)


def run(root: Path, require: dict[str, Any] | None, sink: str = "parquet") -> AttemptResult:
    return run_attempt(make_config(root, require, sink))


def find_latest(root: Path) -> str | None:
    found = resolve(PipelineFolder.on_volume(root / "data", "default", "gated"))
    return None if found is None else found.identity.name


def test_a_run_that_meets_all_requirements_is_published(root: Path) -> None:
    result = run(
        root,
        {
            "verified": True,
            "deadLetters": "0.1%",
            "quarantined": 0,
            "rows": {"min": 6, "max": 6},
            "columns": {"text": "string", "score": "number"},
            "expectations": [
                MEASURED | {"measure": "nullShare", "max": 0.2},
                MEASURED | {"measure": "duplicateShare", "min": 0.19, "max": 0.21},
                MEASURED | {"column": "score", "measure": "greatest", "max": 0.5},
            ],
        },
    )
    assert result.code is ExitCode.COMPLETE, result.message
    assert find_latest(root) == "0001/p0001"


@pytest.mark.parametrize(
    ("require", "sentence"),
    [
        ({"rows": {"min": 1000}}, "rows: there are 6, but at least 1,000 are required"),
        ({"rows": {"max": 5}}, "rows: there are 6, but at most 5 are allowed"),
        ({"columns": {"language": "string"}}, "columns: 'language' is not in "),
        ({"columns": {"score": "integer"}}, "columns: 'score' is number in "),
        (
            {"expectations": [MEASURED | {"measure": "nullShare", "max": 0.01}]},
            "expectations[0]: nullShare of 'text' by measure-fields is 0.166667, but at most 0.01",
        ),
        (
            {"expectations": [MEASURED | {"column": "date", "measure": "distinct", "min": 1}]},
            "distinct of 'date' by measure-fields was not measured",
        ),
    ],
)
def test_latest_stays_if_a_requirement_fails(
    root: Path, require: dict[str, Any], sentence: str
) -> None:
    assert run(root, None).code is ExitCode.COMPLETE
    result = run(root, require)
    assert result.code is ExitCode.REQUIREMENTS_NOT_MET
    assert sentence in result.message
    assert name_cause(result.evidence).cause is Cause.REQUIREMENTS_NOT_MET
    assert find_latest(root) == "0001/p0001"


def test_every_failed_requirement_is_reported(root: Path) -> None:
    result = run(root, {"rows": {"min": 7}, "columns": {"a": "any", "b": "any"}})
    assert [word in result.message for word in ("rows:", "'a'", "'b'")] == [True] * 3
    assert find_latest(root) is None


def test_a_damaged_file_is_found_before_publishing(root: Path) -> None:
    first = run(root, {"verified": True})
    assert first.code is ExitCode.COMPLETE
    hurt = next(path for path in Path(first.output).rglob("*.parquet"))
    hurt.write_bytes(hurt.read_bytes()[:-1] + b"X")
    result = run(root, {"verified": True})
    assert result.code is ExitCode.REQUIREMENTS_NOT_MET
    assert "verified: ledger and files do not agree: changed since" in result.message
    assert find_latest(root) == "0001/p0001"


def test_the_next_attempt_evaluates_the_requirements_again(root: Path) -> None:
    refused = run(root, {"rows": {"min": 7}})
    accepted = run(root, {"rows": {"min": 6}})
    assert (refused.code, accepted.code) == (ExitCode.REQUIREMENTS_NOT_MET, ExitCode.COMPLETE)
    assert "nothing left to do" in accepted.message
    assert find_latest(root) == "0002/p0001"


def test_columns_of_lines_are_unknown(root: Path) -> None:
    result = run(root, {"columns": {"text": "string"}}, sink="jsonl")
    assert "columns: no file is Parquet" in result.message


def test_a_run_that_is_not_complete_is_not_published(root: Path) -> None:
    (root / "2.jsonl").write_text("{ no JSON")
    result = run(root, {"rows": {"min": 1}})
    assert result.code is ExitCode.SOURCES_FAILED
    assert find_latest(root) is None


def test_a_run_without_a_ledger_can_not_be_gated(root: Path) -> None:
    config = replace(make_config(root, {"rows": {"min": 1}}), volume=None)
    with pytest.raises(SpecError, match=r"spec\.publish"):
        run_attempt(config)


@pytest.mark.parametrize(
    "expectation",
    [
        MEASURED | {"stage": "read-jsonl", "measure": "mean", "min": 1},
        {"stage": "measure-fields", "measure": "tokens", "min": 1},
    ],
)
def test_an_unmeasured_requirement_is_refused_before_work(
    root: Path, expectation: dict[str, Any]
) -> None:
    with pytest.raises(SpecError, match=r"expectations\[0\]\.stage: .* does not measure"):
        make_config(root, {"expectations": [expectation]})


def test_mixed_recipes_are_not_published_if_one_is_required(root: Path) -> None:
    def run_over(lines: int, change: OnChange) -> AttemptResult:
        require = {"oneRecipe": True}
        config = make_config(root, require, "parquet" if lines else "jsonl")
        return run_attempt(replace(config, on_change=change))

    assert run_over(0, OnChange.FAIL).code is ExitCode.COMPLETE
    assert find_latest(root) == "0001/p0001"
    (root / "2.jsonl").write_text('{"text": "wave", "score": 1.0}\n')
    mixed = run_over(1, OnChange.CONTINUE)
    assert mixed.code is ExitCode.REQUIREMENTS_NOT_MET
    assert "oneRecipe: 2 sources were made with an older recipe" in mixed.message
    assert find_latest(root) == "0001/p0001"
    assert run_over(1, OnChange.REDO).code is ExitCode.COMPLETE
    assert find_latest(root) == "0003/p0001"
