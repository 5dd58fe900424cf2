"""Fixtures for tests of stages."""

from __future__ import annotations

from pathlib import Path

import pytest
from make_videos import write_all

from stage_runs import StageRun, Tree


@pytest.fixture
def run() -> type[StageRun]:
    """Return a factory: `run("name", camelCase=value)` prepares a stage."""
    return StageRun


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return a factory: `tree("a/b.txt", "c.txt")` writes files that contain their own name."""

    def make(*names: str) -> Path:
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())
        return tmp_path

    return make


@pytest.fixture(scope="session")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the example's videos, which tests must not change."""
    folder = tmp_path_factory.mktemp("videos")
    write_all(folder)
    return folder
