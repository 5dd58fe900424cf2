"""Images of the previous release: built from the history, and kept while in use."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import pytest

from images.build import need_images
from images.history import NoHistoryError, need_sources
from images.names import TARGETS, Images


def git(root: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    done = subprocess.run(
        ["git", *identity, *words],  # noqa: S607 - on PATH
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Provide two commits; the second changes one file and removes another."""
    root = tmp_path / "repository"
    (root / "crds").mkdir(parents=True)
    git(root, "init", "--quiet")
    for name in ("crds/a.py", "crds/b.py", "other.py"):
        (root / name).write_text("first")
    git(root, "add", "-A")
    git(root, "commit", "--quiet", "-m", "first")
    (root / "crds/a.py").write_text("second")
    (root / "crds/b.py").unlink()
    git(root, "commit", "--quiet", "-am", "second")
    return root


def test_the_sources_come_from_the_commit(repository: Path, tmp_path: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD~1")
    found = need_sources(repository, commit, tmp_path / "cache")
    assert {str(path.relative_to(found)): path.read_text() for path in found.rglob("*.py")} == {
        "crds/a.py": "first",
        "crds/b.py": "first",
        "other.py": "first",
    }
    assert (repository / "crds/a.py").read_text() == "second"
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [f"sources-{commit[:12]}"]


def test_sources_are_unpacked_once(repository: Path, tmp_path: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    first = need_sources(repository, commit, tmp_path / "cache", ["crds"])
    (first / "seen").touch()
    assert need_sources(repository, commit, tmp_path / "cache", ["crds"]) == first
    assert sorted(path.name for path in first.rglob("*") if path.is_file()) == ["a.py", "seen"]


def test_a_missing_commit_gives_instructions(repository: Path, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository}", str(shallow))
    with pytest.raises(NoHistoryError, match="--unshallow"):
        need_sources(shallow, git(repository, "rev-parse", "HEAD~1"), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_requested_images_count_as_new(tmp_path: Path) -> None:
    images = Images("0" * 12, tmp_path / "images-old", "local", "x86_64")
    images.folder.mkdir()
    for target in TARGETS:
        images.find_archive(target).touch()
    os.utime(images.folder, (1, 1))
    need_images(tmp_path, images, io.StringIO())
    assert images.folder.stat().st_mtime > 1
