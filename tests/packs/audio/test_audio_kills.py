"""Recordings give the same bytes with all engines, even if a worker or the driver dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from make_speech import write_all

from jobs import Job
from killing import Kill, kill_and_finish

EXAMPLE = Path(__file__).parents[3] / "pipelines" / "examples" / "audio.yaml"


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the example with a task per clip, and without the slow recogniser."""
    folder = tmp_path_factory.mktemp("audio")
    write_all(folder / "recordings")
    document: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    spec = document["spec"]
    spec["source"]["with"]["paths"] = [f"{folder}/recordings/*"]
    spec["stages"][0]["with"]["clipsPerTask"] = 1
    spec["stages"] = [each for each in spec["stages"] if each["use"] != "transcribe"]
    spec["stages"].insert(0, {"use": "kill_stages:LogOpened"})
    manifest = folder / "audio.yaml"
    manifest.write_text(yaml.safe_dump(document))
    return manifest


@pytest.fixture(scope="module")
def whole(manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the outputs of an undisturbed run in one process."""
    return Job(manifest, "inline").run_whole(tmp_path_factory.mktemp("whole"))


# Starts a Ray. In the first tier, tests/engines compares the engines.
@pytest.mark.more
@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_all_engines_write_the_same_bytes(
    manifest: Path, whole: dict[str, str], tmp_path: Path, engine: str
) -> None:
    assert 14 == len(whole)  # a shard and a table for each of seven clips
    assert whole == Job(manifest, engine).run_whole(tmp_path)


# Kills processes of its own Rays. In the first tier, test_kills.py does so with text.
@pytest.mark.full
@pytest.mark.parametrize(
    ("target", "step", "nth"), [("worker", "output.renamed", 3), ("driver", None, 0)]
)
def test_a_kill_leaves_the_same_clips(
    manifest: Path, whole: dict[str, str], tmp_path: Path, target: str, step: str | None, nth: int
) -> None:
    kill = Kill(target, step, nth, written=5, delay=0.0)
    result = kill_and_finish(Job(manifest), tmp_path, kill, whole)
    assert result.is_good, (kill, result)
