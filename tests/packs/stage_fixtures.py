"""What the tests of the stages start from."""

from __future__ import annotations

from pathlib import Path

import pytest
from make_videos import write_all

from stage_runs import StageRun, Tree


@pytest.fixture
def run() -> type[StageRun]:
    """`run("name", camelCase=value)` makes a stage ready to work."""
    return StageRun


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """`tree("a/b.txt", "c.txt")` makes files that hold their own name, in one folder."""

    def make(*names: str) -> Path:
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())
        return tmp_path

    return make


@pytest.fixture(scope="session")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the videos of the example, which must not be changed."""
    folder = tmp_path_factory.mktemp("videos")
    write_all(folder)
    return folder
