"""Ledgers, pipelines, and imports of earlier commits still work, and a downgrade works, too."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from images.history import LAST_RELEASE, NoHistoryError, need_sources
from strandline.run.manifest.manifest import read_manifest

ROOT = Path(__file__).parents[2]
# The last commit before stages became packs with entry points.
BEFORE_PACKS = "f348c8e324d560178e660b88d0a36984ce597b09"
PLACES = ("crds", "pipelines")
OWN = """
import pyarrow as pa
from strandline import Stage, Task


class Mark(Stage):
    def process(self, task: Task) -> Task:
        return task.replace(task.table.append_column("mark", pa.array([1] * task.num_rows)))
"""
PIPELINE = """
apiVersion: strandline.dev/v1alpha1
kind: CurationPipeline
metadata:
  name: notes
spec:
  source:
    use: files
    with: {paths: ["notes/*.txt"]}
  stages:
    - use: read-files
    - use: parse-documents
    - use: own:Mark
  sink:
    use: parquet
"""


@pytest.fixture(scope="module", params=[LAST_RELEASE, BEFORE_PACKS], ids=["release", "packs"])
def before(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the sources of an earlier commit."""
    try:
        return need_sources(ROOT, request.param, tmp_path_factory.mktemp("before"), PLACES)
    except NoHistoryError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def call(tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs `strandline` of a source tree on the pipeline."""
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "notes.yaml").write_text(PIPELINE)

    def call(sources: Path, command: str, *options: str) -> str:
        places = (sources / "pipelines", sources / "crds", tmp_path)
        done = subprocess.run(
            [sys.executable, "-m", "strandline", command, "notes.yaml", *options],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, places))},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, (sources, command, done.stdout, done.stderr)
        return done.stdout + done.stderr

    return call


def write_note(folder: Path, name: str) -> None:
    (folder / "notes").mkdir(exist_ok=True)
    (folder / "notes" / f"{name}.txt").write_text(name)


@pytest.mark.more
def test_a_ledger_survives_a_downgrade_and_an_upgrade(
    before: Path, call: Callable[..., str], tmp_path: Path
) -> None:
    for number, sources in enumerate([before, ROOT, before, ROOT], start=1):
        write_note(tmp_path, f"note {number}")
        call(sources, "run", "--engine", "inline")
        assert "nothing left to do" in call(sources, "run", "--engine", "inline")
    assert "verified: 4 finished sources" in call(ROOT, "verify")


# The last release does not require `within` for `drop-duplicates`, so only this commit is tested.
@pytest.mark.parametrize("before", [BEFORE_PACKS], indirect=True)
def test_earlier_examples_are_unchanged_or_still_valid(
    before: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Examples that are unchanged since then are skipped here, because other tests run them."""
    found = [*(before / "pipelines/examples").rglob("*.yaml")]
    assert found
    for path in found:
        today = ROOT / path.relative_to(before)
        if not (today.is_file() and today.read_bytes() == path.read_bytes()):
            monkeypatch.chdir(path.parent)
            monkeypatch.syspath_prepend(path.parent)
            read_manifest(path, ())


def list_imports(sources: Path) -> set[tuple[str, str]]:
    """Return the module and name of each import from the public modules in all examples."""
    return {
        (node.module, each.name)
        for path in (sources / "pipelines/examples").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "strandline"
        for each in node.names
        if node.module is not None
    }


def test_imports_of_earlier_examples_still_work(before: Path) -> None:
    found = list_imports(before)
    assert found
    for module, name in found:
        assert hasattr(importlib.import_module(module), name), (module, name)
