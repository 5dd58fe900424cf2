"""Files that changed under the same size and modification time are detected by their bytes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline.data.files.identities import (
    SAMPLE_BYTES,
    FileIdentities,
    digest_sample,
)
from strandline.data.files.listing import FileSource
from strandline.plan.stages.registry import find_stage

Edit = Callable[[Path], None]


class Listings:
    """Listings of a folder that remember the results of earlier listings."""

    def __init__(self, root: Path) -> None:
        self.path, self.kept = root / "in", root / "listed-files"
        self.path.mkdir()
        self.reads = 0
        for name in "abc":
            self.write(name, f"text {name}")

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)
        os.utime(self.path / name, ns=(0, 1_000))

    def list(self, *, is_kept: bool = True, **params: Any) -> dict[str, str]:
        """Return the versions of all files."""
        source = find_stage("files")(paths=(f"{self.path}/*",), **params)
        assert isinstance(source, FileSource)
        source.identities = FileIdentities(self.kept, is_kept=is_kept, read_sample=self._read)
        found = {Path(each.key).name: each.version for each in source.list_sources()}
        source.identities.save()
        return found

    def _read(self, path: str, size: int) -> int:
        self.reads += 1
        return digest_sample(path, size)


@pytest.fixture
def listings(tmp_path: Path) -> Listings:
    return Listings(tmp_path)


def replace_file(path: Path, text: str) -> None:
    """Replace a file by another file with the same time, as an archive tool does."""
    other = path.with_name(f".{path.name}")
    other.write_text(text)
    os.utime(other, ns=(0, 1_000))
    other.rename(path)


def edit_in_place(path: Path, text: str) -> None:
    with path.open("r+") as file:
        file.write(text)
    os.utime(path, ns=(0, 1_000))


@pytest.mark.parametrize("edit", [replace_file, edit_in_place])
def test_changed_bytes_change_the_version_permanently(
    listings: Listings, edit: Callable[[Path, str], None]
) -> None:
    before = listings.list()
    edit(listings.path / "b", "TEXT b")
    after = listings.list()
    assert {name for name in before if before[name] != after[name]} == {"b"}
    assert after["b"].startswith(before["b"])
    assert listings.list() == after
    edit(listings.path / "b", "text b")
    again = listings.list()
    assert again["b"] not in {before["b"], after["b"]}
    listings.write("b", "longer than it was")
    assert len(listings.list()["b"]) < len(again["b"])


def copy_tree(path: Path) -> None:
    shutil.copytree(path, path.with_name("copy"))
    shutil.rmtree(path)
    path.with_name("copy").rename(path)


def change_modes(path: Path) -> None:
    for file in path.iterdir():
        file.chmod(0o600)


def rename_files(path: Path) -> None:
    for file in sorted(path.iterdir()):
        file.rename(path / "other")
        (path / "other").rename(file)


def replace_by_equal(path: Path) -> None:
    for file in sorted(path.iterdir()):
        replace_file(file, file.read_text())


@pytest.mark.parametrize("edit", [copy_tree, change_modes, rename_files, replace_by_equal])
def test_the_same_bytes_are_the_same_version(listings: Listings, edit: Edit) -> None:
    before = listings.list()
    assert listings.reads == 3
    edit(listings.path)
    assert listings.list() == before
    assert listings.reads == 6
    assert listings.list() == before
    assert listings.reads == 6


def test_versions_are_unchanged_without_earlier_listings(listings: Listings) -> None:
    stat = os.stat(listings.path / "a")
    assert listings.list()["a"] == f"{stat.st_size}+{stat.st_mtime_ns}"
    edit_in_place(listings.path / "b", "TEXT b")
    listings.kept.unlink()
    assert {len(version) for version in listings.list().values()} == {len("6+1000")}


@pytest.mark.parametrize("content", [b"", b"other", b"strandline listed files 1\nshort"])
def test_a_state_file_of_another_release_or_truncated_is_ignored(
    listings: Listings, content: bytes
) -> None:
    listings.kept.write_bytes(content)
    before = listings.list()
    edit_in_place(listings.path / "b", "TEXT b")
    assert listings.list() != before


def test_a_listing_for_inspection_stores_nothing(listings: Listings) -> None:
    listings.list(is_kept=False)
    assert not listings.kept.exists()
    listings.list()
    kept = listings.kept.read_bytes()
    edit_in_place(listings.path / "b", "TEXT b")
    seen = listings.list(is_kept=False)
    assert (listings.kept.read_bytes(), listings.list()) == (kept, seen)


def test_removed_files_are_forgotten(listings: Listings) -> None:
    listings.list()
    size = listings.kept.stat().st_size
    (listings.path / "c").unlink()
    listings.list()
    assert listings.kept.stat().st_size == size - 32


def test_only_the_sample_of_a_limited_listing_is_read(listings: Listings) -> None:
    listings.list(limit=1)
    assert listings.reads == 1


def test_versions_by_content_need_no_samples(listings: Listings) -> None:
    listings.list(version="content")
    assert (listings.reads, listings.kept.exists()) == (0, False)


def test_files_on_a_server_are_not_read(
    listings: Listings, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = "1 1 0:1 / / rw - nfs4 server:/ rw"
    monkeypatch.setattr("strandline.data.files.listing.read_mounts", lambda: mounts)
    before = listings.list()
    edit_in_place(listings.path / "b", "TEXT b")
    assert (listings.list(), listings.reads) == (before, 0)


def _list_edits() -> Iterator[tuple[int, int, bool]]:
    for size in (1, SAMPLE_BYTES, SAMPLE_BYTES + 1, 2 * SAMPLE_BYTES, 2 * SAMPLE_BYTES + 1):
        yield size, 0, True
        yield size, size - 1, True
        yield size, size // 2, size <= 2 * SAMPLE_BYTES


@pytest.mark.parametrize(("size", "at", "is_seen"), list(_list_edits()))
def test_all_of_a_small_file_and_both_ends_of_a_large_one_count(
    tmp_path: Path, size: int, at: int, *, is_seen: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(size))
    before = digest_sample(str(path), size)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"1")
    assert (digest_sample(str(path), size) != before) == is_seen
