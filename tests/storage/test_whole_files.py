"""A whole file has the former or the new content after any event, and leaves no leftovers."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from publication_builders import Crash, watch_steps
from strandline.storage import faults
from strandline.storage.errors import VolumeError
from strandline.storage.outputs.disk.whole_files import write_whole

STEPS = ("manifest.written", "manifest.synced", "manifest.renamed")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "facts.json"


@pytest.fixture
def armed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(faults, "_reached", Counter())
    return monkeypatch


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir())


@pytest.mark.parametrize("content", [b"", b"{}", b"x" * 3_000_000])
def test_a_file_is_written_and_replaced(path: Path, content: bytes) -> None:
    write_whole(path, b"something else")
    write_whole(path, content)
    assert content == path.read_bytes()
    assert ["facts.json"] == names(path)


def test_the_owner_may_write_and_others_read_as_far_as_the_mask_allows(path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(path, b"{}")
    finally:
        os.umask(before)
    assert 0o640 == path.stat().st_mode & 0o777


def test_bytes_are_durable_before_the_name_and_the_name_before_the_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def record_fsync(handle: int) -> None:
        target = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if target != path.parent:
            assert b"content" == target.read_bytes()
        calls.append(f"fsync {target.name}")
        fsync(handle)

    def record_rename(source: Path, target: Path) -> Path:
        calls.append(f"rename {source.name} {target.name}")
        return rename(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(Path, "rename", record_rename)
    write_whole(path, b"content")
    temporary = ".facts.json.tmp"
    assert calls == [
        f"fsync {temporary}",
        f"rename {temporary} facts.json",
        f"fsync {path.parent.name}",
    ]


def test_the_steps_have_the_callers_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = watch_steps(monkeypatch)
    write_whole(path, b"")
    assert [] == steps.reached
    write_whole(path, b"", steps="manifest")
    assert list(STEPS) == steps.reached


@pytest.mark.parametrize("step", STEPS)
def test_a_full_disk_leaves_the_former_file_and_nothing_beside_it(
    step: str, path: Path, armed: pytest.MonkeyPatch
) -> None:
    write_whole(path, b"former")
    armed.setenv("STRANDLINE_FAULT", f"{step}:enospc")
    with pytest.raises(VolumeError, match=f"^{path}: no space is left on the volume; free some"):
        write_whole(path, b"new", steps="manifest")
    assert (b"new" if step == STEPS[-1] else b"former") == path.read_bytes()
    assert ["facts.json"] == names(path)
    write_whole(path, b"newer", steps="manifest")
    assert b"newer" == path.read_bytes()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_crash_leaves_a_whole_file_and_the_next_writer_cleans_up(
    number: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole(path, b"former")
    watch_steps(monkeypatch, crash_at=number)
    with pytest.raises(Crash):
        write_whole(path, b"a new one that is longer", steps="manifest")
    is_renamed = number == 3
    assert (b"a new one that is longer" if is_renamed else b"former") == path.read_bytes()
    assert is_renamed is (["facts.json"] == names(path))
    watch_steps(monkeypatch)
    write_whole(path, b"short")
    assert b"short" == path.read_bytes()
    assert ["facts.json"] == names(path)


def test_writers_of_one_file_take_turns(path: Path) -> None:
    contents = [b"a" * 9, b"b" * 70_000, b"c", b"d" * 200_000]

    def write(content: bytes) -> None:
        for _ in range(15):
            write_whole(path, content)
            assert path.read_bytes() in contents

    with ThreadPoolExecutor(len(contents)) as pool:
        assert [None] * len(contents) == list(pool.map(write, contents))
    assert ["facts.json"] == names(path)


def test_a_link_in_the_temporary_files_place_is_not_followed(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"kept")
    path.with_name(".facts.json.tmp").symlink_to(other)
    with pytest.raises(VolumeError, match=f"^{path}: Too many levels of symbolic links"):
        write_whole(path, b"new")
    assert b"kept" == other.read_bytes()


def test_indistinguishable_files_do_not_cause_an_endless_wait(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "samestat", lambda one, other: False)
    with pytest.raises(VolumeError, match="file system can't distinguish files"):
        write_whole(path, b"new")
    assert not path.exists()


@pytest.mark.parametrize(
    ("spot", "sentence"),
    [
        ("gone/x", "No such file"),
        ("file/x", "this is a file, but a folder is needed"),
        ("in", "dir"),
    ],
)
def test_obstacles_are_named(spot: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "in").mkdir()
    with pytest.raises(VolumeError, match=sentence) as caught:
        write_whole(tmp_path / spot, b"")
    assert str(caught.value).startswith(f"{tmp_path / spot}: ")
    assert ["file", "in"] == names(tmp_path / "x")
