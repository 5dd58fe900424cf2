"""The folder in memory is used only if the memory suffices, and is removed afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

import memory_folder
from memory_folder import LEAST_MEMORY, TEMP_ROOT, has_room, temporary_root


@pytest.mark.parametrize(
    ("available", "has"), [(LEAST_MEMORY, True), (LEAST_MEMORY - 1024, False), (0, False)]
)
def test_a_machine_with_little_memory_writes_to_its_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, available: int, has: bool
) -> None:
    monkeypatch.setattr(memory_folder, "LEAST_ROOM", 1)
    memory = tmp_path / "meminfo"
    memory.write_text(f"MemTotal: 99 kB\nMemAvailable:   {available >> 10} kB\n")
    assert has_room(tmp_path, memory) is has


def test_without_room_folder_or_memory_figures_the_disk_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = tmp_path / "meminfo"
    memory.write_text(f"MemAvailable: {LEAST_MEMORY >> 10} kB\n")
    assert not has_room(tmp_path / "none", memory)
    assert not has_room(tmp_path, tmp_path / "none")
    monkeypatch.setattr(memory_folder, "LEAST_ROOM", 1 << 60)
    assert not has_room(tmp_path, memory)


def test_the_folder_is_removed_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_folder, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(memory_folder, "has_room", lambda: True)
    with temporary_root({"A": "b"}) as environ:
        (root := Path(environ[TEMP_ROOT])).joinpath("file").touch()
        assert environ["A"] == "b"
        assert root.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_a_folder_set_by_the_user_is_kept(tmp_path: Path) -> None:
    with temporary_root({TEMP_ROOT: str(tmp_path)}) as environ:
        assert environ == {TEMP_ROOT: str(tmp_path)}
