"""A small pipeline that does all that can be counted: fan-outs, filters, groups, and two outputs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from killing import SMALL_SOURCES, Job


@pytest.fixture(scope="session")
def small_manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A manifest over two dozen small files, in a folder of its own."""
    folder = tmp_path_factory.mktemp("small")
    texts = folder / "texts"
    texts.mkdir()
    for number in range(SMALL_SOURCES):
        lines = [f"line {number}.{line}" * (line + 1) for line in range(number % 7)]
        lines.insert(number % 3, "")  # the first ones are nothing but filtered
        (texts / f"{number:02d}.txt").write_text("\n".join(lines))
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "small"},
        "spec": {
            "source": {"use": "files", "with": {"paths": [f"{texts}/*.txt"]}},
            "stages": [
                {"use": "kill_stages:LogOpened"},
                {"use": "read-files"},
                {"use": "kill_stages:SplitLines"},
                {"use": "kill_stages:JoinLengths", "group": 2},
            ],
            "sink": {"use": "jsonl", "batchSize": 2},
        },
    }
    manifest = folder / "small.yaml"
    manifest.write_text(yaml.safe_dump(document))
    return manifest


@pytest.fixture(scope="session")
def small_job(small_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """The small pipeline as a job to be killed."""
    return Job(small_manifest, tmp_path_factory.mktemp("kills"))


@pytest.fixture(scope="session")
def small_whole(small_job: Job) -> dict[str, str]:
    """What the small pipeline writes when nobody disturbs it."""
    return small_job.run_whole()
