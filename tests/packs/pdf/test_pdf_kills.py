"""Tables and whole documents give the same rows, even if a process dies during a document."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from make_pdfs import write_all

import jobs
from jobs import Job
from killing import Kill, kill_and_finish

EXAMPLE = Path(__file__).parents[3] / "pipelines" / "examples" / "pdf.yaml"


def write_manifest(folder: Path, stages: list[dict[str, Any]]) -> Path:
    """Write the example with these stages."""
    write_all(folder / "pdfs", pages=12)
    document: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    document["spec"]["source"]["with"]["paths"] = [f"{folder}/pdfs/*.pdf"]
    document["spec"]["stages"] = [{"use": "kill_stages:LogOpened"}, *stages]
    path = folder / "pdf.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a pipeline with a file per page, so that a kill finds documents half done."""
    stages = [{"use": "read-pdf", "with": {"pagesPerTask": 1, "tables": True}}]
    return write_manifest(tmp_path_factory.mktemp("pages"), stages)


@pytest.fixture(scope="module")
def whole(manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the outputs of an undisturbed run in one process."""
    return Job(manifest, "inline").run_whole(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the example with a row per document, and without the slow recognition."""
    stages = [each for each in yaml.safe_load(EXAMPLE.read_text())["spec"]["stages"]
              if each["use"] != "ocr-pages"]  # fmt: skip
    stages[0]["with"] = {"pagesPerTask": 1, "render": "none"}
    return write_manifest(tmp_path_factory.mktemp("documents"), stages)


@pytest.fixture(scope="module")
def whole_documents(documents: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the outputs of an undisturbed run in one process."""
    return Job(documents, "inline").run_whole(tmp_path_factory.mktemp("whole"))


KILLS = [
    ("worker", "output.opened", 2),
    ("worker", "output.renamed", 3),
    ("ledger", "source.settled", 2),
    ("driver", None, 0),
]


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize(("target", "step", "nth"), KILLS)
def test_a_kill_leaves_the_same_pages(
    manifest: Path, whole: dict[str, str], tmp_path: Path, target: str, step: str | None, nth: int
) -> None:
    kill = Kill(target, step, nth, written=5, delay=0.0)
    result = kill_and_finish(Job(manifest), tmp_path, kill, whole)
    assert result.is_good, (kill, result)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize(("target", "step", "nth"), KILLS)
def test_a_kill_leaves_the_same_documents(
    documents: Path,
    whole_documents: dict[str, str],
    tmp_path: Path,
    target: str,
    step: str | None,
    nth: int,
) -> None:
    kill = Kill(target, step, nth, written=1, delay=0.0)
    result = kill_and_finish(Job(documents), tmp_path, kill, whole_documents)
    assert result.is_good, (kill, result)


@pytest.mark.slow
@pytest.mark.full
def test_a_kill_of_the_process_that_reads_leaves_the_same_pages(
    manifest: Path, whole: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(jobs.PATTERNS, "reader", f"{sys.executable} -c from strandline_packs.pdf")
    kill = Kill("reader", None, 0, written=5, delay=0.0)
    result = kill_and_finish(Job(manifest), tmp_path, kill, whole)
    assert result.is_good, (kill, result)
