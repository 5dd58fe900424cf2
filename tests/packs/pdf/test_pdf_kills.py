"""Documents give the same rows with both engines, even if a worker dies during a document."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from make_pdfs import write_all

from jobs import Job
from killing import Kill, kill_and_finish


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a pipeline with a file per page, so that a kill finds documents half done."""
    folder = tmp_path_factory.mktemp("pdf")
    write_all(folder / "pdfs", pages=12)
    stages = [
        {"use": "kill_stages:LogOpened"},
        {"use": "read-pdf", "with": {"pagesPerTask": 1}},
    ]
    source = {"use": "files", "with": {"paths": [f"{folder}/pdfs/*.pdf"]}}
    spec = {"source": source, "stages": stages, "sink": {"use": "parquet"}}
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "pdf"},
        "spec": spec,
    }
    path = folder / "pdf.yaml"
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
    assert 5 + 2 + 1 + 1 + 1 + 12 == len(whole)
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
