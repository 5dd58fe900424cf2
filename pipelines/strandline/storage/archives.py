"""An archive of files, unpacked into a folder that is whole or absent, and nowhere else.

Archives come from elsewhere, so nothing in one is trusted: not its names, not its sizes. It must
not know what the files are for.
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

MOST_BYTES = 2 << 30
MOST_FILES = 100_000
_BLOCK = 1 << 20


# Exceptions of the readers of archives and compressions for bytes that are none of theirs.
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
    """An archive that is not what was asked for, or that can't be unpacked safely."""

    exit_code = ExitCode.BAD_SPEC


class Member(NamedTuple):
    """What an archive holds.

    Attributes:
        is_plain: a file or a folder; no link, device or pipe.
        open: its content; of a file alone.
    """

    name: str
    is_folder: bool
    is_plain: bool
    open: Callable[[], IO[bytes]]


def fetch_archive(
    url: str, digest: str, folder: Path, sleep: Callable[[float], None], *, is_kept: bool
) -> None:
    """Have an archive's files in a folder; where the folder is there, it has them already.

    Args:
        url: see `download`.
        digest: its SHA-256 in hexadecimal; nothing is unpacked where it has another one.
        is_kept: the folder outlives this machine's next crash, so what is in it must be on disk.

    Raises:
        ArchiveError: another digest, no archive, or one that reaches out of its folder.
        UnreachableError, NothingThereError, VolumeError: as `download`.
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
            msg = f"the archive at {url} has the digest {found}, not the one that was asked for"
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
        if not folder.exists():  # another process has been quicker, with the same files
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
                what = "is no plain file; pack files alone, without links"
                raise ArchiveError(f"the archive at {url}: {member.name!r} {what}")
            if member.is_folder:
                (folder / path).mkdir(parents=True, exist_ok=True)
                continue
            if path in names:
                raise ArchiveError(f"the archive at {url} holds {member.name!r} twice")
            names.add(path)
            left = _write(member, folder / path, left, url, is_kept=is_kept)
    if is_kept:
        for below, _, _ in os.walk(folder):  # names last once their folders are synced, each one
            sync_folder(below)


def _write(member: Member, path: Path, left: int, url: str, *, is_kept: bool) -> int:
    """Write a file, however large the archive says that it is; the bytes that may still follow."""
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
    """Return where a member goes, below the folder.

    Its links can't lead out, since there are none.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        msg = f"the archive at {url}: {name!r} would be written outside of its folder"
        raise ArchiveError(msg)
    return path


@contextmanager
def _listing(file: Path, url: str) -> Iterator[Iterator[Member]]:
    """Open an archive by what it holds, whatever its name ends in."""
    try:
        if _begins_as_zip(file):
            with zipfile.ZipFile(file) as packed:
                yield _list_zip(packed)
        else:
            with tarfile.open(file) as tape:
                yield _list_tar(tape)
    except _DAMAGES as error:
        raise _describe_damage(url, error) from error
    except (NotImplementedError, RuntimeError) as error:  # a password, or a rare compression
        raise ArchiveError(f"the archive at {url} can't be unpacked: {error}") from error
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        name = Path(str(error.filename)).name
        msg = f"the archive at {url} holds {name!r} as a file and as a folder"
        raise ArchiveError(msg) from error
    except OSError as error:
        # So bzip2's reader tells damage, and a file a place in it that can't be; a disk has others.
        if error.errno not in {None, errno.EINVAL}:
            raise
        raise _describe_damage(url, error) from error


def _describe_damage(url: str, error: Exception) -> ArchiveError:
    what = "is no archive that can be read (.zip, .whl, .tar, .tar.gz)"
    return ArchiveError(f"{url} {what}: {error}")


def _begins_as_zip(file: Path) -> bool:
    """Return whether the first bytes are a ZIP's; a tape may end in a member that is one."""
    with file.open("rb") as opened:
        return opened.read(4) in {b"PK\x03\x04", b"PK\x05\x06"}


def _list_zip(packed: zipfile.ZipFile) -> Iterator[Member]:
    for info in packed.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)
        is_plain = kind in {0, stat.S_IFREG, stat.S_IFDIR}
        yield Member(info.filename, info.is_dir(), is_plain, partial(packed.open, info))


def _list_tar(tape: tarfile.TarFile) -> Iterator[Member]:
    for info in tape:
        is_plain = info.isfile() or info.isdir()
        yield Member(info.name, info.isdir(), is_plain, partial(_open, tape, info))


def _open(tape: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    opened = tape.extractfile(info)
    assert opened is not None  # `extractfile` gives None only for what is no file
    return opened
