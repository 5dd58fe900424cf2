"""`strandline near-duplicates`, and a pipeline that drops the texts which it lists."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cli_project import Call, Project, read_errors, write_signatures

TIDE = "the tide turned an hour before sunrise and the boats that had lain on the mud all night"
TEXTS = {"in/0.txt": f"{TIDE} lifted", "in/1.txt": "nothing like it at all", "in/2.txt": TIDE}


@pytest.fixture
def gathered(project: Project) -> Project:
    """Return a project with three texts, two of them similar, and signatures of a first pass."""
    for name, text in TEXTS.items():
        (project.path / name).write_text(text)
    write_signatures(project.path / "first/latest/artifacts/sketch.signatures.parquet", TEXTS)
    return project


def make_list(call: Call, *words: str) -> str:
    result = call("near-duplicates", "first", "--out", "list.parquet", *words)
    assert (0, "") == (result.exit_code, result.stderr)
    return result.stdout


def test_the_later_of_two_similar_texts_is_listed(gathered: Project, call: Call) -> None:
    assert "list.parquet: 1 near-duplicate among 3 texts\n" == make_list(call)
    listed = pq.read_table(gathered.path / "list.parquet").to_pylist()
    assert [{"key": "in/2.txt", "stays": "in/0.txt"}] == listed
    told = json.loads(make_list(call, "--threshold", "1", "--json"))
    assert {"texts": 3, "nearDuplicates": 0, "out": "list.parquet"} == told


def test_a_second_pipeline_drops_listed_texts_and_a_new_list_changes_it(
    gathered: Project, run: Call, call: Call
) -> None:
    gathered.spec["stages"].append({"use": "drop-listed", "with": {"path": "list.parquet"}})
    gathered.save()
    make_list(call)
    assert run().exit_code == 0
    rows = [
        json.loads(line) for raw in gathered.list_outputs().values() for line in raw.splitlines()
    ]
    assert ["in/0.txt", "in/1.txt"] == sorted(row["key"] for row in rows)
    make_list(call)
    assert run().exit_code == 0
    make_list(call, "--threshold", "1")
    result = run()
    assert result.exit_code == 65
    assert "drop-listed.inputs.path: " in result.stderr


def test_a_missing_list_is_reported_before_anything_runs(gathered: Project, call: Call) -> None:
    gathered.spec["stages"].append({"use": "drop-listed", "with": {"path": "list.parquet"}})
    gathered.save()
    result = call("validate", "pipeline.yaml")
    assert result.exit_code == 64
    assert "spec.stages[2].with: " in result.stderr
    assert "list.parquet: No such file or directory" in result.stderr


def test_a_fully_described_pipeline_has_the_same_fingerprint(gathered: Project, call: Call) -> None:
    gathered.spec["stages"].append({"use": "drop-listed", "with": {"path": "list.parquet"}})
    gathered.save()
    make_list(call)
    (gathered.path / "full.yaml").write_text(call("describe", "pipeline.yaml").stdout)
    plans = [
        json.loads(call("plan", name, "--json").stdout) for name in ("pipeline.yaml", "full.yaml")
    ]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gone.parquet", "--out", "x"], "gone.parquet: No such file or directory"),
        (["in", "--out", "x"], "in: this folder has 0 files of signatures"),
        (["pipeline.yaml", "--out", "x"], "pipeline.yaml: "),
        (["first", "--out", "in"], "Is a directory"),
        (["odd://x/y.parquet", "--out", "x"], "Protocol not known: odd"),
        (["first", "--out", "odd://x"], "Protocol not known: odd"),
        (["twice", "--out", "x"], "two texts have the key 'a'"),
        (["first", "--out", "x", "--threshold", "2"], "not in the range"),
    ],
)
def test_invalid_signatures_get_a_clear_error(
    gathered: Project, call: Call, words: list[str], expected: str
) -> None:
    write_signatures(gathered.path / "once/signatures.parquet", {"a": TIDE})
    (gathered.path / "twice").mkdir()
    once = pq.read_table(gathered.path / "once/signatures.parquet")
    with pq.ParquetWriter(gathered.path / "twice/signatures.parquet", once.schema) as writer:
        writer.write_table(once)
        writer.write_table(once)
    result = call("near-duplicates", *words)
    assert result.exit_code == 64
    assert expected in read_errors(result)
    assert not Path("x").exists()
