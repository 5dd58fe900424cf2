"""A user tunes a finished pipeline: preview, change a limit, add a column, compare."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from journey import Journey

PIPELINE = """\
apiVersion: strandline.dev/v1alpha1
kind: CurationPipeline
metadata: {{name: pages}}
spec:
  onChange: Redo
  source:
    use: jsonl-files
    with: {{paths: ["pages/*.jsonl"]}}
  stages:
    - use: read-jsonl
    - use: normalise-text
      keep: true
    - use: gopher-quality
      with: {{minDocWords: {limit}, minStopWords: 0}}
{more}  sink: {{use: parquet}}
"""
LENGTH = """\
import pyarrow.compute as pc

from strandline import Stage, Task


class Length(Stage):
    keeps_columns = True
    adds_columns = ("length",)

    def process(self, task: Task) -> Task:
        return task.replace(task.table.append_column("length", pc.utf8_length(task.table["text"])))
"""
WORDS = "The keeper of the lighthouse climbed the stairs and trimmed the wick with care again."


@pytest.fixture
def user(tmp_path: Path) -> Journey:
    journey = Journey(tmp_path)
    for file in "abc":
        texts = [" ".join(WORDS.split()[: 4 + row]) for row in range(10)]
        lines = [json.dumps({"text": f"{text} {file}"}) + "\n" for text in texts]
        journey.write(f"pages/{file}.jsonl", "".join(lines))
    return journey


def write(user: Journey, limit: int, more: str = "") -> None:
    user.write("pages.yaml", PIPELINE.format(limit=limit, more=more))


def read_rows(user: Journey) -> list[dict[str, object]]:
    output = user.folder / "strandline-data/default/pages/output"
    paths = sorted(output.glob("???/*/*.parquet"))
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def test_a_limit_is_changed_a_column_is_added_and_the_result_is_compared(user: Journey) -> None:
    write(user, 6)
    assert user.strandline("run", "pages.yaml", "--engine", "inline").code == 0
    before = len(read_rows(user))
    tuned = user.strandline("tune", "pages.yaml", "--stage", "gopher-quality", "--json")
    assert (tuned.code, "minDocWords" in tuned.text) == (0, True), tuned

    write(user, 10)
    planned = user.strandline("plan", "pages.yaml")
    assert "3 from the output of 'normalise-text'" in planned.text, planned
    assert user.strandline("run", "pages.yaml", "--engine", "inline").code == 0
    rows = read_rows(user)
    assert 0 < len(rows) < before
    assert all(len(str(row["text"]).split()) >= 10 for row in rows)

    user.write("lengths.py", LENGTH)
    write(user, 10, "    - use: lengths:Length\n")
    planned = user.strandline("plan", "pages.yaml")
    assert "3 from the files of the sink" in planned.text, planned
    assert user.strandline("run", "pages.yaml", "--engine", "inline").code == 0
    longer = read_rows(user)
    assert [row["length"] for row in longer] == [len(str(row["text"])) for row in rows]

    assert "3 finished sources" in user.strandline("verify", "pages.yaml").text
    kept = user.strandline("kept", "list", "pages.yaml")
    assert kept.text.startswith("normalise-text: 3 sources, "), kept
    assert user.strandline("report", "pages.yaml", "--out", "report.html").code == 0
