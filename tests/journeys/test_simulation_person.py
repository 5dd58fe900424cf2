"""A user archives the steps of a grid simulation while the simulation continues."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from journey import Journey

EXAMPLES = Path(__file__).parents[2] / "pipelines" / "examples"


@pytest.fixture
def user(tmp_path: Path) -> Journey:
    pytest.importorskip("zarr")
    for name in ("fields.yaml", "waves.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    return Journey(tmp_path)


def test_later_steps_are_added_to_the_archive(user: Journey) -> None:
    file = user.folder / "fields.yaml"
    file.write_text(file.read_text().replace("steps: 44", "steps: 25"))
    said = user.time_first_result("run", "fields.yaml")
    assert said.code == 0, said
    before = {path.name: path.read_bytes() for path in user.list_outputs()}
    assert len(before) == 3  # ten steps per chunk

    file.write_text(file.read_text().replace("steps: 25", "steps: 44"))
    said = user.strandline("run", "fields.yaml")

    assert said.code == 0, said
    after = {path.name: path.read_bytes() for path in user.list_outputs()}
    assert len(after) == 5
    unchanged = [name for name in before if after.get(name) == before[name]]
    assert len(unchanged) == 2  # the incomplete chunk is rewritten
    assert user.strandline("verify", "fields.yaml").code == 0
