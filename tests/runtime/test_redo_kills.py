"""Kills of Ray processes while a run redoes finished sources after a change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from jobs import Job
from strandline.storage.outputs.remote import open_outputs


# Starts three Rays per case. In the first tier, tests/run/test_redo_laws.py crashes a redo at every
# step in one process.
@pytest.mark.full
@pytest.mark.parametrize("step", ["output.renamed", "commit.written", "commit.synced"])
def test_a_run_killed_during_a_redo_ends_as_an_undisturbed_run(step: str, tmp_path: Path) -> None:
    """The killed process is a sink's worker or the owner of the ledger."""
    (tmp_path / "in").mkdir()
    for file in range(6):
        lines = "".join(json.dumps({"n": file * 20 + row}) + "\n" for row in range(20))
        (tmp_path / f"in/{file}.jsonl").write_text(lines)
    manifest = tmp_path / "numbers.yaml"
    job, volume = Job(manifest_of(manifest, 50), engine="ray"), tmp_path / "volume"
    assert 0 == job.run(volume)
    manifest_of(manifest, 101)
    job.run(volume, {"STRANDLINE_FAULT": f"{step}:kill:1"})
    assert (volume / "fault.log").exists()
    assert 0 == job.run(volume)
    assert [] == list(job.find_problems(volume, open_outputs(str(job.find_folder(volume).output))))
    paths = job.find_folder(volume).output.rglob("*.jsonl")
    found = sorted(
        json.loads(line)["n"] for path in paths for line in path.read_text().splitlines()
    )
    assert found == list(range(101))


def manifest_of(path: Path, limit: int) -> Path:
    spec = {
        "onChange": "Redo",
        "source": {"use": "jsonl-files", "with": {"paths": [f"{path.parent}/in/*"]}},
        "stages": [
            {"use": "read-jsonl", "keep": True},
            {"use": "keep-rows", "with": {"where": f"n < {limit}"}},
        ],
        "sink": {"use": "jsonl"},
        "checkpoint": {"keepLast": 1},
    }
    head = {"apiVersion": "strandline.dev/v1alpha1", "kind": "CurationPipeline"}
    path.write_text(yaml.safe_dump({**head, "metadata": {"name": "numbers"}, "spec": spec}))
    return path
