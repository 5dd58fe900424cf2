"""One command for several pipelines, told to stop at a drawn moment: all of them stop."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from strandline import list_outputs
from strandline.run.history.records import AttemptRecord, find_last
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.exit_codes import ExitCode

NAMES = ("first", "second", "third")
SOURCES = 6
NAP = """
import time

from strandline import Stage, Task


class Nap(Stage):
    def process(self, task: Task) -> Task:
        time.sleep(0.04)
        return task
"""


def write(folder: Path) -> None:
    """Write three pipelines over the same files; nothing else asks for their order."""
    (folder / "in").mkdir()
    for number in range(SOURCES):
        (folder / f"in/{number}.jsonl").write_text(f'{{"n": {number}}}\n')
    (folder / "naps.py").write_text(NAP)
    spec = {
        "source": {"use": "jsonl-files", "with": {"paths": ["in/*.jsonl"]}},
        "stages": [{"use": "read-jsonl"}, {"use": "naps:Nap"}],
        "sink": {"use": "jsonl"},
    }
    head = {"apiVersion": "strandline.dev/v1alpha1", "kind": "CurationPipeline"}
    documents = [{**head, "metadata": {"name": name}, "spec": spec} for name in NAMES]
    (folder / "all.yaml").write_text(yaml.safe_dump_all(documents))


def start(folder: Path) -> subprocess.Popen[bytes]:
    words = ["run", "all.yaml", "--engine", "inline"]
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-m", "strandline", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def list_begun(folder: Path) -> list[AttemptRecord | None]:
    volume = folder / "strandline-data"
    return [find_last(PipelineFolder.of(volume, "default", name)) for name in NAMES]


def read_rows(folder: Path, name: str) -> list[int]:
    files = list_outputs(folder / f"strandline-data/default/{name}/output")
    return sorted(json.loads(Path(file).read_text())["n"] for file in files)


@pytest.mark.parametrize("seed", range(2))
def test_law_a_stop_ends_all_and_the_next_run_goes_on(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    write(tmp_path)
    process = start(tmp_path)
    # Near the end of one is where a stop was lost: it had completed, and the next one began.
    until, wait = rng.choice(NAMES[:2]), rng.random() * SOURCES * 0.05
    while find_last(PipelineFolder.of(tmp_path / "strandline-data", "default", until)) is None:
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(wait)
    before = list_begun(tmp_path)
    process.send_signal(rng.choice([signal.SIGTERM, signal.SIGINT]))
    code = process.wait(60)
    after = list_begun(tmp_path)

    under_way = [record for record in before if record and record.ended is None]
    assert code == (ExitCode.INTERRUPTED if before != after or under_way or None in after else 0)
    # At most one begins that was begun already when the signal came, and was not seen.
    assert sum(record is None for record in after) >= sum(record is None for record in before) - 1
    assert start(tmp_path).wait(120) == 0
    assert [read_rows(tmp_path, name) for name in NAMES] == [list(range(SOURCES))] * len(NAMES)
