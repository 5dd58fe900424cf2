"""Documents and pictures give the same rows with both engines, even if a process dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import make_pdfs
import make_pictures
import pytest
import yaml

from jobs import Job
from killing import Kill, kill_and_finish
from tiny_models import make_bright_faces

OUTPUTS = {"pdf": 5 + 2 + 1 + 1 + 1 + 12, "pictures": 15}


@pytest.fixture(scope="module", params=OUTPUTS)
def manifest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a pipeline with a file per page or picture, so that a kill finds sources half done."""
    folder = tmp_path_factory.mktemp(request.param)
    stages: list[dict[str, Any]] = [{"use": "kill_stages:LogOpened"}]
    if request.param == "pdf":
        make_pdfs.write_all(folder / "files", pages=12)
        stages.append({"use": "read-pdf", "with": {"pagesPerTask": 1}})
    else:
        make_pictures.write_all(folder / "files")
        model = make_bright_faces(folder / "faces.onnx")
        stages += [{"use": "read-files"}, {"use": "decode-images", "with": {"longest": 200}}]
        stages.append({"use": "blur-images", "with": {"model": model}})
    source = {"use": "files", "with": {"paths": [f"{folder}/files/*"]}}
    spec = {"source": source, "stages": stages, "sink": {"use": "parquet"}}
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": request.param},
        "spec": spec,
    }
    path = folder / f"{request.param}.yaml"
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
    assert OUTPUTS[manifest.stem] == len(whole)
    assert whole == Job(manifest).run_whole(tmp_path)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize(
    ("target", "step", "nth"),
    [("worker", "output.renamed", 3), ("driver", None, 0)],
)
def test_a_kill_leaves_the_same_pages(
    manifest: Path, whole: dict[str, str], tmp_path: Path, target: str, step: str | None, nth: int
) -> None:
    kill = Kill(target, step, nth, written=5, delay=0.0)
    result = kill_and_finish(Job(manifest), tmp_path, kill, whole)
    assert result.is_good, (kill, result)
