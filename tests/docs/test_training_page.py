"""The loops of the training page run if the loaders that they import are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from document_blocks import ROOT, read_blocks, run_in

PAGE = "docs/training.md"
TRAINERS = ROOT / ".cache/trainers/bin/python"
LOADERS = ("streaming", "datatrove", "megatron")


def needs_loaders(code: str) -> bool:
    return any(f"from {name}" in code for name in LOADERS)


@pytest.mark.slow
def test_blocks_run_and_loops_read_the_written_shards(tmp_path: Path) -> None:
    """Loops run only if `make trainers` has installed their loaders. Other blocks always run."""
    shutil.copytree(ROOT / "pipelines/examples", tmp_path / "pipelines/examples")
    for block in read_blocks(PAGE):
        if block.file:
            (tmp_path / block.file).write_text(block.code)
        if block.language == "bash":
            for line in block.code.splitlines():
                done = run_in(tmp_path, *line.split())
                assert done.returncode == 0, (line, done.stdout, done.stderr)
        if block.language == "python" and not needs_loaders(block.code):
            done = run_in(tmp_path, sys.executable, "-c", block.code)
            assert done.returncode == 0, (block.code, done.stderr)
    if not TRAINERS.exists():
        pytest.skip("the loops of trainers were not run: make trainers")
    for block in read_blocks(PAGE):
        if block.language == "python" and needs_loaders(block.code):
            done = subprocess.run(
                [TRAINERS, "-c", block.code], cwd=tmp_path, capture_output=True, text=True,
                check=False, timeout=300,
            )  # fmt: skip
            assert done.returncode == 0, (block.code, done.stdout, done.stderr)


def test_the_page_contains_every_loop() -> None:
    loops = [block.code for block in read_blocks(PAGE) if needs_loaders(block.code)]
    assert {name for name in LOADERS for code in loops if f"from {name}" in code} == {*LOADERS}
