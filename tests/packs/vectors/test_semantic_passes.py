"""The passes that drop texts with the same meaning: the kept set survives crashes and engines."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

from document_blocks import read_blocks, run_in
from pipeline_runs import Passes, crashing_at
from strandline.cli.app.commands import program
from strandline_api.outcome.exit_codes import ExitCode
from strandline_packs.vectors.vector_columns import scale

EXAMPLE = Path(__file__).parents[3] / "pipelines/examples/semantic-duplicates.yaml"
SUBJECTS = ["ferry", "bakery", "library", "lighthouse", "school", "harbour"]
FRAMES = [
    "The {} is closed on Monday because of the storm.",
    "Because of the storm, the {} is closed on Monday.",
    "On Monday the {} is closed because of the storm!",
    "A new door for the {} costs four hundred euros.",
]
KEPT = "semantic-duplicates"


class SemanticPasses:
    """The example's pipelines over texts of several files."""

    def __init__(self, folder: Path, name: str = "volume") -> None:
        self.passes, self.input = Passes(folder), folder / "in"
        self.passes.volume = folder / name
        self.input.mkdir(exist_ok=True)
        for number, subject in enumerate(SUBJECTS):
            lines = [json.dumps({"text": frame.format(subject)}) + "\n" for frame in FRAMES]
            (self.input / f"{number}.jsonl").write_text("".join(lines))

    def list_pipelines(self) -> list[dict[str, Any]]:
        text = EXAMPLE.read_text().replace("pipelines/examples/notices", str(self.input))
        return list(yaml.safe_load_all(text))

    def run(self, engines: Mapping[str, str] = MappingProxyType({})) -> None:
        for pipeline in self.list_pipelines():
            name = pipeline["metadata"]["name"]
            engine = engines.get(name, "inline")
            code = self.passes.run(name, engine=engine, **pipeline["spec"]).code
            assert code is ExitCode.COMPLETE
            assert self.passes.find_problems(name) == []

    def read(self) -> list[str]:
        return sorted(
            json.loads(line)["key"]
            for path in self.passes.find_output(KEPT).rglob("*.jsonl")
            for line in path.read_text().splitlines()
        )

    def read_table(self, name: str) -> pa.Table:
        paths = sorted(self.passes.find_output(name).rglob("*.parquet"))
        return pa.concat_tables([pq.read_table(path) for path in paths])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> SemanticPasses:
    """The passes after a run without interruptions."""
    passes = SemanticPasses(tmp_path_factory.mktemp("semantic"))
    passes.run()
    return passes


def test_rows_go_if_and_only_if_a_similar_row_of_their_cluster_stays(
    whole: SemanticPasses,
) -> None:
    """The list is compared with all pairs of each cluster."""
    rows = whole.read_table("assigned").to_pylist()
    units = scale(np.array([row["vector"] for row in rows]))
    similar = units @ units.T >= 0.75
    by_key = {row["key"]: at for at, row in enumerate(rows)}
    stays = {row["key"]: row["stays"] for row in whole.read_table("similar").to_pylist()}
    assert 5 < len(stays) < len(rows) - 5
    assert sorted(stays.keys() | set(whole.read())) == sorted(by_key)
    for at, row in enumerate(rows):
        before = [
            other
            for other, each in enumerate(rows)
            if each["cluster"] == row["cluster"]
            and (each["closeness"], each["key"]) < (row["closeness"], row["key"])
        ]
        assert (row["key"] in stays) == any(similar[at, other] for other in before)
    assert not stays.keys() & set(stays.values())


@pytest.mark.parametrize("at", [2, 9, 23])
def test_law_the_kept_set_survives_crashes(
    whole: SemanticPasses, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = SemanticPasses(whole.passes.folder, f"killed-{at}")
    for _ in range(2):
        with suppress(AssertionError), crashing_at(at, monkeypatch):
            killed.run()
    killed.run()
    assert killed.read() == whole.read()


def test_law_the_kept_set_does_not_depend_on_the_engine(whole: SemanticPasses) -> None:
    other = SemanticPasses(whole.passes.folder, "processes")
    other.run(dict.fromkeys(("vectors", "similar"), "processes"))
    assert other.read() == whole.read()


def test_the_nearest_rows_of_a_row_are_shown(whole: SemanticPasses) -> None:
    file = whole.passes.folder / "all.yaml"
    file.write_text(yaml.safe_dump_all(whole.list_pipelines()))
    table = whole.read_table("vectors")
    keys, units = table["key"].to_pylist(), scale(np.array(table["vector"].to_pylist()))
    order = np.argsort(-(units @ units[0]), kind="stable")
    nearest = [keys[at] for at in order if at][:4]
    words = ["similar", f"{file}#vectors", "--volume", str(whole.passes.volume), "--row"]
    process = CliRunner().invoke(program, [*words, keys[0], "--count", "4", "--json"])
    assert process.exit_code == 0, process.output
    rows = [json.loads(line) for line in process.output.splitlines()]
    assert sorted(row["key"] for row in rows) == sorted(nearest)
    assert [row["cosine"] for row in rows] == sorted((row["cosine"] for row in rows), reverse=True)
    plain = CliRunner().invoke(program, [*words, keys[0], "--count", "1"]).output
    assert plain == f"{rows[0]['cosine']:.3f}  {rows[0]['key']}\n"


@pytest.mark.parametrize(
    ("name", "row", "words"),
    [
        ("vectors", "nowhere", "no row has the key 'nowhere'"),
        ("centers", "a", "there is no column 'key'"),
        ("unknown", "a", "unknown"),
    ],
)
def test_a_row_or_vectors_that_are_missing_are_named(
    whole: SemanticPasses, name: str, row: str, words: str
) -> None:
    file = whole.passes.folder / "all.yaml"
    file.write_text(yaml.safe_dump_all(whole.list_pipelines()))
    volume = str(whole.passes.volume)
    process = CliRunner().invoke(
        program, ["similar", f"{file}#{name}", "--volume", volume, "--row", row]
    )
    assert process.exit_code != 0
    assert words in f"{process.output}{process.exception}"


@pytest.mark.more
@pytest.mark.parametrize(("page", "number"), [("semantic-duplicates", 3), ("images", 3)])
def test_the_commands_of_the_page_print_what_it_shows(
    page: str, number: int, tmp_path: Path
) -> None:
    root = EXAMPLE.parents[2]
    shutil.copytree(root / "pipelines/examples", tmp_path / "pipelines/examples")
    (block,) = [each for each in read_blocks(f"docs/{page}.md") if "$ " in each.code]
    shown = 0
    for part in block.code.split("$ ")[1:]:
        line, *nearest = part.splitlines()
        process = run_in(tmp_path, *shlex.split(line))
        assert process.returncode == 0, process.stderr
        lines = process.stdout.splitlines()
        for each in nearest:
            assert each == "…" or each in lines, (each, lines)
            shown += each != "…"
    assert shown == number
