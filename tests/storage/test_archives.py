"""An archive with the requested digest is unpacked completely into its folder, or not at all."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from archive_builders import FILES, digest, read_all, write_tar, write_zip
from power_loss import Disk
from strandline.plan.errors import code_of
from strandline.storage import archives
from strandline.storage.archives import ArchiveError, fetch_archive
from strandline.storage.downloads import download
from strandline_api.outcome.exit_codes import ExitCode

Write = Callable[[Path], str]


def fetch(path: Path, wanted: str, folder: Path, *, is_kept: bool = False) -> None:
    fetch_archive(str(path), wanted, folder, lambda _: None, is_kept=is_kept)


def refuse(path: Path, wanted: str) -> str:
    """Check that an archive is rejected and no file is left. Return the error message."""
    folder = path.parent / "into" / "code"
    with pytest.raises(ArchiveError) as told:
        fetch(path, wanted, folder)
    assert code_of(told.value) is ExitCode.BAD_SPEC
    assert list(folder.parent.iterdir()) == []
    return str(told.value)


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize(
    "write",
    [
        write_zip,
        write_tar,
        lambda path: write_tar(path, mode="w"),
        lambda path: write_tar(path, mode="w:bz2"),
        lambda path: write_tar(path, mode="w:xz"),
    ],
)
def test_every_kind_is_unpacked_under_any_name(tmp_path: Path, write: Write, is_kept: bool) -> None:
    wanted = write(tmp_path / "code")
    fetch(tmp_path / "code", wanted, tmp_path / "into/deep", is_kept=is_kept)
    assert read_all(tmp_path / "into/deep") == FILES
    assert [path.name for path in (tmp_path / "into").iterdir()] == ["deep"]


def test_kept_archives_survive_a_power_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = write_zip(tmp_path / "code.zip")
    (tmp_path / "cache").mkdir()
    disk = Disk(tmp_path / "cache", monkeypatch)
    fetch(tmp_path / "code.zip", wanted, tmp_path / "cache/into", is_kept=True)
    left = disk.lose_power(tmp_path / "left")
    disk.close()
    assert read_all(left / "into") == FILES


def test_a_tape_that_ends_in_a_zip_is_a_tape(tmp_path: Path) -> None:
    write_zip(tmp_path / "inner.zip")
    files = {"inner.zip": (tmp_path / "inner.zip").read_bytes()}
    wanted = write_tar(tmp_path / "outer.tar", files, mode="w")
    fetch(tmp_path / "outer.tar", wanted, tmp_path / "into")
    assert read_all(tmp_path / "into") == files


def test_an_existing_archive_is_not_downloaded_again(tmp_path: Path) -> None:
    wanted = write_zip(tmp_path / "code.zip")
    fetch(tmp_path / "code.zip", wanted, tmp_path / "into")
    (tmp_path / "code.zip").unlink()
    fetch(tmp_path / "code.zip", wanted, tmp_path / "into")
    assert read_all(tmp_path / "into") == FILES


def test_another_process_may_finish_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = write_zip(tmp_path / "code.zip")

    def be_quicker(url: str, target: Path, sleep: Callable[[float], None]) -> str:
        (tmp_path / "into").mkdir()
        (tmp_path / "into/theirs.py").touch()
        return download(url, target, sleep)

    monkeypatch.setattr(archives, "download", be_quicker)
    fetch(tmp_path / "code.zip", wanted, tmp_path / "into")
    assert list(read_all(tmp_path / "into")) == ["theirs.py"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["code.zip", "into"]


def test_nothing_of_an_archive_with_another_digest_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "code.zip"
    found = write_zip(path)
    said = f"the archive at {path} has the digest {found}, not the requested one"
    assert refuse(path, "0" * 64) == said


@pytest.mark.parametrize("name", ["../out.py", "/out.py", "a/../../out.py", "a\\..\\out.py"])
@pytest.mark.parametrize("write", [write_zip, write_tar])
def test_nothing_is_written_outside(
    tmp_path: Path, name: str, write: Callable[[Path, dict[str, bytes]], str]
) -> None:
    path = tmp_path / "code"
    wanted = write(path, {"a.py": b"", name: b"bad"})
    assert "would be written outside its folder" in refuse(path, wanted)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["code", "into"]


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_zip(path, link="odd"),
        lambda path: write_tar(path, kind=tarfile.SYMTYPE),
        lambda path: write_tar(path, kind=tarfile.LNKTYPE),
        lambda path: write_tar(path, kind=tarfile.FIFOTYPE),
        lambda path: write_tar(path, kind=tarfile.CHRTYPE),
    ],
)
def test_links_and_devices_are_refused(tmp_path: Path, write: Write) -> None:
    path = tmp_path / "code"
    assert ("'odd' is not a regular file; pack only regular files, without links") in refuse(
        path, write(path)
    )


@pytest.mark.parametrize("write", [write_zip, write_tar])
def test_too_many_bytes_or_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., str]
) -> None:
    path = tmp_path / "code"
    wanted = write(path, {"a.py": b"x" * 600, "b.py": b"x" * 600})
    monkeypatch.setattr(archives, "MOST_BYTES", 1199)
    assert "unpacks to more than" in refuse(path, wanted)
    monkeypatch.setattr(archives, "MOST_BYTES", 1200)
    monkeypatch.setattr(archives, "MOST_FILES", 1)
    assert "holds more than 1 files" in refuse(path, wanted)
    monkeypatch.setattr(archives, "MOST_FILES", 2)
    fetch(path, wanted, tmp_path / "fits")


@pytest.mark.parametrize("write", [write_tar, lambda path: write_tar(path, mode="w:xz"), write_zip])
@pytest.mark.parametrize("damage", ["cut", "spoilt"])
def test_damaged_archives_are_reported(tmp_path: Path, write: Write, damage: str) -> None:
    path = tmp_path / "code"
    write(path)
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    else:
        content[len(content) // 3 : len(content) // 3 + 20] = b"\xff" * 20
    path.write_bytes(content)
    assert str(path) in refuse(path, digest(path))


def spoil_later_block(content: bytearray) -> None:
    """Damage a bzip2 of two megabytes, after the part that is read on opening."""
    middle = len(content) * 2 // 3
    content[middle : middle + 20] = b"\xff" * 20


def spoil_directory(content: bytearray) -> None:
    """Move the offset of a zip file's directory beyond the end of any file."""
    end = content.rindex(b"PK\x05\x06")
    content[end + 16 : end + 20] = b"\xff\xff\xff\x7f"


def spoil_name(content: bytearray) -> None:
    """Change a name in a zip file's directory to bytes that are not UTF-8."""
    start = content.rindex("é".encode())
    content[start : start + 2] = b"\xff\xff"


@pytest.mark.parametrize(
    ("write", "spoil"),
    [
        (lambda path, files: write_tar(path, files, mode="w:bz2"), spoil_later_block),
        (write_zip, spoil_directory),
        (write_zip, spoil_name),
    ],
    ids=["block", "directory", "name"],
)
def test_damage_is_reported_for_the_archive_and_not_the_disk(
    tmp_path: Path, write: Callable[..., str], spoil: Callable[[bytearray], None]
) -> None:
    path = tmp_path / "code"
    write(path, {"a.py": os.urandom(1 << 21), "é.py": b""})
    content = bytearray(path.read_bytes())
    spoil(content)
    path.write_bytes(content)
    assert "is not a readable archive" in refuse(path, digest(path))


@pytest.mark.parametrize("content", [b"", b"import os\n", b"PK\x03\x04", os.urandom(2000)])
def test_other_files_than_archives_are_reported(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "code.zip"
    path.write_bytes(content)
    assert "is not a readable archive" in refuse(path, digest(path))


def test_a_repeated_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "code"
    wanted = write_tar(path, {"a.py": b"1", "./a.py": b"2"})
    assert "holds './a.py' twice" in refuse(path, wanted)
    wanted = write_tar(path, {"a.py": b"1", "a.py/b.py": b"2"})
    assert "as a file and as a folder" in refuse(path, wanted)
