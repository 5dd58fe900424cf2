"""Detects files whose bytes changed while size and modification time stayed the same.

Unpacking an archive again, or editing a file in place, can cause this. A new inode or change time
only raises a suspicion: copies, restored volumes, `chmod`, and pods that change groups alter both.
A recorded digest of the bytes decides. The digest covers a small file completely, and both ends of
a large file. The module must not depend on how a folder is walked.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from strandline.data.files.listed import ListedFile
from strandline.storage.errors import VolumeError
from strandline.storage.outputs.disk.whole_files import write_whole

SAMPLE_BYTES = 64 << 10  # bytes to read from each end of a file
_HEADER = b"strandline listed files 1\n"
_COLUMNS = 4  # key, inode, sample, mark: 64-bit numbers
_BYTES = 8


class FileIdentities:
    """Inodes and digests of listed files, from the last listing and the current one.

    Args:
        path: file that the last listing wrote, or None to compare nothing.
        is_kept: True if `save` may replace the file.
        read_sample: returns a digest of a file's bytes; see `digest_sample`.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        is_kept: bool = False,
        read_sample: Callable[[str, int], int] | None = None,
    ) -> None:
        self._path = path
        self._is_kept = is_kept
        self._read_sample = read_sample or digest_sample
        # Use arrays, which need 32 bytes per file. A dictionary would need several times as much.
        self._known = [array("Q") for _ in range(_COLUMNS)]
        self._found = [array("Q") for _ in range(_COLUMNS)]
        self._is_new = False
        if path is not None:
            with suppress(OSError):  # the file does not exist before the first listing
                self._load(path.read_bytes())

    def revise(self, file: ListedFile) -> ListedFile:
        """Return the file, with a new version if only its bytes changed, but not its size and time.

        A file that was not listed before keeps its version, so that ledgers of earlier releases
        remain valid.
        """
        if self._path is None or not file.inode:
            return file
        key = _mix(f"{file.key}\0{file.version}".encode("utf-8", "surrogateescape"))
        known = self._look_up(key)
        if known is not None and known[0] == file.inode:
            _, sample, mark = known
        else:
            self._is_new = True
            try:
                sample = self._read_sample(file.path, file.size)
            except OSError:  # the stage that reads the file reports the error
                return file
            # Keep the mark of the last listing; otherwise the version would switch back.
            mark = 0 if known is None else known[2] if known[1] == sample else sample
        for column, value in zip(self._found, (key, file.inode, sample, mark), strict=True):
            column.append(value)
        return file._replace(version=f"{file.version}+{mark:016x}") if mark else file

    def save(self) -> None:
        """Write the identities of this listing. On failure, the previous file stays."""
        is_shorter = len(self._found[0]) < len(self._known[0])
        if self._path is None or not self._is_kept or not (self._is_new or is_shorter):
            return
        with suppress(OSError, VolumeError):
            write_whole(self._path, self._render())

    def _render(self) -> Iterator[bytes]:
        keys = self._found[0]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        yield _HEADER
        for column in self._found:
            yield array("Q", (column[at] for at in order)).tobytes()

    def _load(self, content: bytes) -> None:
        body = content.removeprefix(_HEADER)
        rest = len(body) % (_COLUMNS * _BYTES)
        if len(body) == len(content) or rest:  # another release wrote the file
            return
        length = len(body) // _COLUMNS
        for index, column in enumerate(self._known):
            column.frombytes(body[index * length : (index + 1) * length])

    def _look_up(self, key: int) -> tuple[int, int, int] | None:
        keys, *values = self._known
        at = bisect_left(keys, key)
        if at == len(keys) or keys[at] != key:
            return None
        inode, sample, mark = (column[at] for column in values)
        return inode, sample, mark


def mix_inode(stat: os.stat_result) -> int:
    """Return a nonzero number that changes if a file is replaced or its inode is altered."""
    # 0 means an unknown inode.
    return _mix(f"{stat.st_ino} {stat.st_ctime_ns}".encode()) or 1


def digest_sample(path: str, size: int) -> int:
    """Return a digest of both ends of a file. For a small file, the digest covers all bytes.

    Raises:
        OSError: if the file can't be read.
    """
    state = blake2b(digest_size=_BYTES)
    with open(path, "rb", buffering=0) as file:
        state.update(file.read(SAMPLE_BYTES))
        if size > SAMPLE_BYTES:
            # Prevent an overlap of the two ends in a file of less than 128 KiB.
            file.seek(max(SAMPLE_BYTES, size - SAMPLE_BYTES))
            state.update(file.read(SAMPLE_BYTES))
    # 0 means that the version has no mark.
    return int.from_bytes(state.digest(), "little") or 1


def _mix(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=_BYTES).digest(), "little")
