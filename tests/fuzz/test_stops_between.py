"""A stop signal at a random moment stops all pipelines of a command."""

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
from strandline.run.insight.records import AttemptRecord, find_last
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.exit_codes import ExitCode

NAMES = ("first", "second", "third")
SOURCES, NAP_SECONDS = 6, 0.2
LATE = 1.25 * NAP_SECONDS  # then the last source is being written
NAP = """
import time
from pathlib import Path

from strandline import Stage, Task


class Nap(Stage):
    def process(self, task: Task) -> Task:
        with Path("naps.log").open("a") as log:
            log.write("nap\\n")
        time.sleep(0.2)
        return task
"""


def write(folder: Path) -> None:
    """Write three pipelines over the same files, without dependencies between them."""
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


def count_naps(folder: Path) -> int:
    log = folder / "naps.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def list_begun(folder: Path) -> list[AttemptRecord | None]:
    volume = folder / "strandline-data"
    return [find_last(PipelineFolder.on_volume(volume, "default", name)) for name in NAMES]


def read_rows(folder: Path, name: str) -> list[int]:
    files = list_outputs(folder / f"strandline-data/default/{name}/output")
    return sorted(json.loads(Path(file).read_text())["n"] for file in files)


@pytest.mark.more
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))]
)
def test_law_a_stop_ends_all_pipelines_and_the_next_run_resumes(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    write(tmp_path)
    # With seed 0, stop while the last source of a pipeline is written. Such a stop was once lost:
    # the pipeline completed, and the next pipeline began.
    naps, wait = (
        (rng.randint(1, 2 * SOURCES), rng.random() * NAP_SECONDS) if seed else (SOURCES, LATE)
    )
    process = start(tmp_path)
    while count_naps(tmp_path) < naps:
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(wait)
    before = list_begun(tmp_path)
    process.send_signal(rng.choice([signal.SIGTERM, signal.SIGINT]))
    code = process.wait(60)
    after = list_begun(tmp_path)

    assert code == ExitCode.INTERRUPTED
    # One more pipeline may begin, because it may have been starting when the signal arrived.
    assert sum(record is None for record in after) >= sum(record is None for record in before) - 1
    assert after[-1] is None
    assert count_naps(tmp_path) <= naps + 2
    assert start(tmp_path).wait(120) == 0
    assert [read_rows(tmp_path, name) for name in NAMES] == [list(range(SOURCES))] * len(NAMES)
