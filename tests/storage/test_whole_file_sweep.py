"""A killed writer's leftovers beside a whole file are removed; a live writer's files stay."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from publication_builders import Crash, watch_steps
from strandline.storage.errors import VolumeError
from strandline.storage.outputs.disk.whole_files import sweep_whole, write_whole


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "facts.json"


@pytest.fixture
def temporary(path: Path) -> Path:
    return path.with_name(".facts.json.tmp")


@pytest.mark.parametrize("number", [1, 2])
def test_files_of_a_killed_writer_are_removed(
    number: int, path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole(path, b"former")
    watch_steps(monkeypatch, crash_at=number)
    with pytest.raises(Crash):
        write_whole(path, b"new", steps="manifest")
    assert temporary.exists()
    sweep_whole(path)
    assert ["facts.json"] == os.listdir(path.parent)
    assert b"former" == path.read_bytes()


def test_without_leftovers_nothing_happens(path: Path) -> None:
    sweep_whole(path)
    assert [] == os.listdir(path.parent)


def test_files_of_a_live_writer_stay(path: Path, temporary: Path) -> None:
    with temporary.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        sweep_whole(path)
        assert temporary.exists()
    sweep_whole(path)
    assert not temporary.exists()


def test_a_link_in_place_of_a_temporary_file_is_not_followed(path: Path, temporary: Path) -> None:
    path.write_bytes(b"kept")
    temporary.symlink_to(path)
    with pytest.raises(VolumeError, match=f"^{path}: "):
        sweep_whole(path)
    assert b"kept" == path.read_bytes()
