"""Pictures are blurred in the same way with both engines, even if a process dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import make_pictures
import pytest
import yaml

from jobs import Job
from killing import Kill, kill_and_finish
from tiny_models import make_bright_faces


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a pipeline with a file per picture."""
    folder = tmp_path_factory.mktemp("pictures")
    make_pictures.write_all(folder / "files")
    model = make_bright_faces(folder / "faces.onnx")
    stages: list[dict[str, Any]] = [
        {"use": "kill_stages:LogOpened"},
        {"use": "read-files"},
        {"use": "decode-images", "with": {"longest": 200}},
        {"use": "blur-images", "with": {"model": model}},
    ]
    source = {"use": "files", "with": {"paths": [f"{folder}/files/*"]}}
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "pictures"},
        "spec": {"source": source, "stages": stages, "sink": {"use": "parquet"}},
    }
    path = folder / "pictures.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture(scope="module")
def whole(manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the outputs of an undisturbed run in one process."""
    return Job(manifest, "inline").run_whole(tmp_path_factory.mktemp("whole"))


@pytest.mark.slow
@pytest.mark.more
def test_both_engines_write_the_same_rows(
    manifest: Path, whole: dict[str, str], tmp_path: Path
) -> None:
    assert 15 == len(whole)
    assert whole == Job(manifest).run_whole(tmp_path)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize(
    ("target", "step", "nth"),
    [("worker", "output.renamed", 3), ("driver", None, 0)],
)
def test_a_kill_leaves_the_same_pictures(
    manifest: Path, whole: dict[str, str], tmp_path: Path, target: str, step: str | None, nth: int
) -> None:
    kill = Kill(target, step, nth, written=5, delay=0.0)
    result = kill_and_finish(Job(manifest), tmp_path, kill, whole)
    assert result.is_good, (kill, result)
