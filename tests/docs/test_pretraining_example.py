"""The example from a crawl to token sequences runs with one command, and resumes after kills."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from command_server import execute_command, execute_strandline

pytestmark = pytest.mark.first(reason="kills the longest example once")

ROOT = Path(__file__).parents[2]
EXAMPLES = "pipelines/examples"
FILE = f"{EXAMPLES}/pretraining.yaml"
BUDGET, LENGTH = 4000, 128
WEB = 0.75  # the web part's share of the budget
STEPS = ("output.written", "output.renamed", "commit.begun", "commit.written", "commit.synced")


def run(folder: Path, *words: str, fault: str = "") -> int:
    environment = os.environ | ({"STRANDLINE_FAULT": fault} if fault else {})
    done = execute_strandline(*words, cwd=folder, env=environment)
    assert fault or done.returncode == 0, (done.stdout, done.stderr)
    return done.returncode


def run_all(folder: Path, volume: str, fault: str = "") -> int:
    words = ["--engine", "inline", "--no-supervise", "--volume", volume]
    return run(folder, "run", FILE, *words, fault=fault)


def tolerate_kills(file: Path) -> None:
    """Raise the quarantine limit, because all kills may hit the same source on a slow machine."""
    text = file.read_text(encoding="utf-8")
    file.write_text(
        text.replace("\nspec:\n", "\nspec:\n  quarantine: {after: 9}\n"), encoding="utf-8"
    )


def read_outputs(folder: Path, volume: str, name: str) -> list[bytes]:
    """Return the data files in the order of partitions."""
    output = folder / volume / "default" / name / "output"
    return [path.read_bytes() for path in sorted(output.glob("???/*/*"))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepare a folder as the example's header describes, and run the example there."""
    folder = tmp_path_factory.mktemp("pretraining")
    shutil.copytree(ROOT / EXAMPLES, folder / EXAMPLES)
    for script, place, *words in (
        ("make_crawl.py", "crawl", "--pages", "102"),
        ("make_networks.py", "networks"),
    ):
        command = [sys.executable, f"{EXAMPLES}/{script}", f"strandline-data/{place}", *words]
        assert execute_command(command, cwd=folder).returncode == 0
    tolerate_kills(folder / FILE)
    run_all(folder, "strandline-data")
    return folder


def test_the_example_makes_a_mixture_and_pushes_it(folder: Path) -> None:
    texts = [
        row
        for path in (folder / "strandline-data/default/pretraining-texts/output").glob("???/*/*")
        for row in pq.read_table(path).to_pylist()
    ]
    assert {row["part"] for row in texts} == {"web", "documents"}
    assert min(row["educational"] for row in texts) >= 0.5
    artifacts = folder / "strandline-data/default/pretraining/latest/artifacts"
    (artifact,) = artifacts.glob("*mixture.json")
    shares = json.loads(artifact.read_text())
    assert sum(share["wanted"] for share in shares.values()) == BUDGET
    assert abs(shares["web"]["share"] - WEB) < 0.15  # imprecise, because there are few rows
    taken = sum(share["taken"] for share in shares.values())
    for name in ("pretraining", "pretraining-texts"):
        run(folder, "verify", f"{FILE}#{name}")
        run(folder, "push", f"{FILE}#{name}", "--to", f"published/{name}")
    latest = json.loads((folder / "published/pretraining/latest.json").read_bytes())
    revision = folder / "published/pretraining" / latest["revision"]
    index = json.loads((revision / "index.json").read_bytes())
    samples = sum(shard["samples"] for shard in index["shards"])
    # Only the last sequence of a partition may be shorter.
    assert taken <= samples * LENGTH < taken + len(index["shards"]) * LENGTH
    assert "web.wanted\\_share | 0.75" in (revision / "README.md").read_text()


# The first tier runs only the first seed.
@pytest.mark.more
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.more)])
def test_a_randomly_killed_run_has_the_same_result(folder: Path, seed: int) -> None:
    volume = f"killed-{seed}"
    chance = random.Random(f"pretraining {seed}")
    steps = [chance.choice(STEPS) for _ in range(3)]
    # Kill at an early output: a pass writes one file for several sources, so there are few outputs.
    faults = [f"{step}:kill:{chance.randint(1, 3) if 'output' in step else 1}" for step in steps]
    codes = [run_all(folder, volume, fault) for fault in faults]
    assert all(codes), (faults, codes)  # every kill hit a pass with work left
    run_all(folder, volume)
    for name in ("pretraining", "pretraining-texts"):
        whole = read_outputs(folder, "strandline-data", name)
        assert whole
        assert read_outputs(folder, volume, name) == whole
