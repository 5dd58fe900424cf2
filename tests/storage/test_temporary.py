"""Temporary folders are removed after their owner's end, and never during the owner's life."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline.storage.outputs.disk import temporary
from strandline.storage.outputs.disk.temporary import (
    hold_folder,
    owned_folder,
    spooling,
    sweep_folders,
)

# A program that creates a folder, prints its path, and waits until it is killed.
OWN = """
import sys, tempfile, time
tempfile.tempdir = sys.argv[1]
from strandline.storage.outputs.disk.temporary import owned_folder
with owned_folder("kind") as folder:
    (folder / "content").write_text("x")
    print(folder, flush=True)
    time.sleep(1000)
"""
APART = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]

Start = Callable[..., tuple[subprocess.Popen[str], Path]]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the parent of all temporary folders."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def start(root: Path) -> Iterator[Start]:
    """Return a function that starts a process, which creates a temporary folder."""
    started = []

    def start(*before: str) -> tuple[subprocess.Popen[str], Path]:
        command = [*before, sys.executable, "-c", OWN, str(root)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    yield start
    for process in started:
        process.kill()
        process.communicate()


def can_be_apart() -> bool:
    found = shutil.which("unshare")
    return bool(found) and subprocess.run([*APART, "true"], check=False).returncode == 0


def test_a_folder_is_removed_at_the_end(root: Path) -> None:
    with owned_folder("kind") as folder:
        assert folder.parent == root
        (folder / "content").write_text("x")
    assert [] == list(root.iterdir())


def test_the_next_process_removes_folders_of_a_killed_one(start: Start) -> None:
    process, left = start()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert left.exists()
    with owned_folder("other"):
        assert left.exists()
    with owned_folder("kind"):
        assert not left.exists()


@pytest.mark.parametrize("apart", [False, True])
def test_law_the_folder_of_a_living_process_is_not_removed(start: Start, apart: bool) -> None:
    """The folder stays even if this process cannot see the owner, or sees another with its pid."""
    if apart and not can_be_apart():
        pytest.skip("this machine gives no process a namespace of its own")
    _, living = start(*(APART if apart else ()))
    with owned_folder("kind") as folder:
        assert (living / "content").exists()
        assert folder != living


def test_foreign_folders_stay(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "strandline-kind-file").write_text("x")
    (root / "elsewhere").mkdir()
    (root / "strandline-kind-link").symlink_to(root / "elsewhere")
    sweep_folders(root, "strandline-kind-")
    assert 3 == len(list(root.iterdir()))
    (root / "strandline-kind-others").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    sweep_folders(root, "strandline-kind-")
    assert (root / "strandline-kind-others").exists()


def test_a_folder_swept_before_it_was_held_is_recreated(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process removes the folder after its creation, before the owner holds it."""
    known, swept = temporary.hold_folder, list[Path]()

    def hold(path: Path) -> int | None:
        if not swept:
            swept.append(path)
            sweep_folders(root, "strandline-kind-")
        return known(path)

    monkeypatch.setattr(temporary, "hold_folder", hold)
    with owned_folder("kind") as folder:
        assert folder.exists()
        assert not swept[0].exists()


def test_a_folder_is_held_by_many_and_swept_after_the_last(root: Path) -> None:
    path = root / "strandline-kind-shared"
    path.mkdir()
    handles = [hold_folder(path), hold_folder(path)]
    for handle in handles:
        sweep_folders(root, "strandline-kind-")
        assert path.exists()
        assert handle is not None
        os.close(handle)
    sweep_folders(root, "strandline-kind-")
    assert hold_folder(path) is None


def test_a_spool_accepts_rows_and_is_removed_at_the_end(root: Path) -> None:
    with spooling("things (name, size INT)") as spool:
        spool.execute("INSERT INTO things VALUES ('a', 1)")
        assert [("a", 1)] == spool.execute("SELECT * FROM things").fetchall()
        (folder,) = root.iterdir()
        assert folder.name.startswith("strandline-spool-")
    assert [] == list(root.iterdir())
