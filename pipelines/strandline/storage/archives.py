"""Unpacks archives into a folder that is complete or absent, and writes nothing elsewhere.

Archives come from third parties, so their names and sizes are not trusted. The module must not
depend on the purpose of the files.
"""

from __future__ import annotations

import errno
import gzip
import lzma
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from strandline.plan.errors import StrandlineError
from strandline.storage.downloads import download
from strandline.storage.errors import naming_volume
from strandline.storage.layout import sync_folder
from strandline_api.outcome.exit_codes import ExitCode

# A small archive can unpack to any size, so limit the total bytes and the number of files.
MOST_BYTES = 2 << 30
MOST_FILES = 100_000
_BLOCK = 1 << 20


# Exceptions that Python's readers of archives and compressed files raise for invalid bytes.
_DAMAGES = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    UnicodeDecodeError,
)


class ArchiveError(StrandlineError):
    """Raised if an archive has the wrong digest, is invalid, or can't be unpacked safely."""

    exit_code = ExitCode.BAD_SPEC


class Member(NamedTuple):
    """A member of an archive.

    Attributes:
        is_plain: True for files and folders, False for links, devices, and pipes.
        open: opens the content; for files only.
    """

    name: str
    is_folder: bool
    is_plain: bool
    open: Callable[[], IO[bytes]]


def fetch_archive(
    url: str, digest: str, folder: Path, sleep: Callable[[float], None], *, is_kept: bool
) -> None:
    """Download an archive and unpack it into a folder, unless the folder already exists.

    Args:
        url: see `download`.
        digest: expected SHA-256 in hexadecimal. An archive with another digest is not unpacked.
        is_kept: True if the folder must survive a crash of the machine; the files are then synced.

    Raises:
        ArchiveError: if the archive has another digest, is invalid, or has paths outside the
            folder.
        UnreachableError, NothingThereError, VolumeError: see `download`.
    """
    if folder.exists():
        return
    with naming_volume(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        file, files = aside / "archive", aside / "files"
        found = download(url, file, sleep)
        if found != digest:
            msg = f"the archive at {url} has the digest {found}, not the requested one"
            raise ArchiveError(msg)
        with naming_volume(folder):
            _unpack(file, files, url, is_kept=is_kept)
            _put(files, folder, is_kept=is_kept)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _put(files: Path, folder: Path, *, is_kept: bool) -> None:
    try:
        files.rename(folder)
    except OSError:
        if not folder.exists():  # otherwise, another process was faster and wrote the same files
            raise
    if is_kept:
        sync_folder(folder.parent)


def _unpack(file: Path, folder: Path, url: str, *, is_kept: bool) -> None:
    folder.mkdir()
    left, names = MOST_BYTES, set()
    with _listing(file, url) as members:
        for number, member in enumerate(members):
            path = _find_path(member.name, url)
            if number >= MOST_FILES:
                raise ArchiveError(f"the archive at {url} holds more than {MOST_FILES:,} files")
            if not member.is_plain:
                what = "is not a regular file; pack only regular files, without links"
                raise ArchiveError(f"the archive at {url}: {member.name!r} {what}")
            if member.is_folder:
                (folder / path).mkdir(parents=True, exist_ok=True)
                continue
            if path in names:
                raise ArchiveError(f"the archive at {url} holds {member.name!r} twice")
            names.add(path)
            left = _write(member, folder / path, left, url, is_kept=is_kept)
    if is_kept:
        for below, _, _ in os.walk(folder):  # a file's name is durable once its folder is synced
            sync_folder(below)


def _write(member: Member, path: Path, left: int, url: str, *, is_kept: bool) -> int:
    """Write a file without trusting its declared size. Return the number of bytes still allowed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with member.open() as source, path.open("xb") as target:
        while block := source.read(_BLOCK):
            left -= len(block)
            if left < 0:
                most = f"{MOST_BYTES >> 20} MiB"
                raise ArchiveError(f"the archive at {url} unpacks to more than {most}")
            target.write(block)
        if is_kept:
            target.flush()
            os.fsync(target.fileno())
    return left


def _find_path(name: str, url: str) -> PurePosixPath:
    """Return the path of a member, relative to the folder.

    Members with links are rejected elsewhere, so links cannot lead out of the folder.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        msg = f"the archive at {url}: {name!r} would be written outside its folder"
        raise ArchiveError(msg)
    return path


@contextmanager
def _listing(file: Path, url: str) -> Iterator[Iterator[Member]]:
    """Open an archive. The content determines the format, not the suffix."""
    try:
        if _begins_as_zip(file):
            with zipfile.ZipFile(file) as packed:
                yield _list_zip(packed)
        else:
            with tarfile.open(file) as tape:
                yield _list_tar(tape)
    except _DAMAGES as error:
        raise _describe_damage(url, error) from error
    except (NotImplementedError, RuntimeError) as error:  # encrypted, or a rare compression method
        raise ArchiveError(f"the archive at {url} can't be unpacked: {error}") from error
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        name = Path(str(error.filename)).name
        msg = f"the archive at {url} holds {name!r} as a file and as a folder"
        raise ArchiveError(msg) from error
    except OSError as error:
        # Raise errors of the disk, which have other error numbers: bzip2's reader reports damage
        # without an errno, and an invalid seek has EINVAL.
        if error.errno not in {None, errno.EINVAL}:
            raise
        raise _describe_damage(url, error) from error


def _describe_damage(url: str, error: Exception) -> ArchiveError:
    what = "is not a readable archive (.zip, .whl, .tar, .tar.gz)"
    return ArchiveError(f"{url} {what}: {error}")


def _begins_as_zip(file: Path) -> bool:
    """Return True if the file begins with a ZIP signature.

    A search for the ZIP directory at the end is unsafe: a tar file may end with a ZIP member.
    """
    with file.open("rb") as opened:
        # The second value is the beginning of an empty ZIP.
        return opened.read(4) in {b"PK\x03\x04", b"PK\x05\x06"}


def _list_zip(packed: zipfile.ZipFile) -> Iterator[Member]:
    for info in packed.infolist():
        # The upper 16 bits are the Unix mode; archives created on Windows have 0 there.
        kind = stat.S_IFMT(info.external_attr >> 16)
        is_plain = kind in {0, stat.S_IFREG, stat.S_IFDIR}
        yield Member(info.filename, info.is_dir(), is_plain, partial(packed.open, info))


def _list_tar(tape: tarfile.TarFile) -> Iterator[Member]:
    for info in tape:
        is_plain = info.isfile() or info.isdir()
        yield Member(info.name, info.isdir(), is_plain, partial(_open, tape, info))


def _open(tape: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    opened = tape.extractfile(info)
    assert opened is not None  # `extractfile` returns None only for members that are not files
    return opened
