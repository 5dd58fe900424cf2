"""Logs of drivers on a volume: a file for each attempt, of bounded length, the oldest removed.

A log is for people and proves nothing, so nothing here is synced, and where it can't be written the
attempt goes on without it. This room must not know what writes, nor what is written.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.driver_log import BEFORE_SUFFIX, SUFFIX, name_log

# Bytes of the file that grows; the part before it may be as long once more.
MOST_BYTES = 16 * 2**20
MOST_LOGS = 10


class DriverLog:
    """A log that takes whatever is written; of one that grows too long its last part stays.

    Args:
        path: of its file, which is gone on with where it is there.
        most: bytes in it, before it becomes the part before the next one.
    """

    def __init__(self, path: Path, most: int = MOST_BYTES) -> None:
        self.path = path
        self._most = most
        self._file: BinaryIO | None = None
        self._size = 0

    def write(self, data: bytes) -> None:
        """Write, where that can be done: a full volume must not end what is written about."""
        with suppress(OSError):
            file = self._file or self._open()
            if self._size and self._size + len(data) > self._most:
                self.close()
                self.path.replace(self.path.with_suffix(BEFORE_SUFFIX))
                file = self._open()
            self._size += file.write(data)

    def _open(self) -> BinaryIO:
        # Without a buffer of its own, so a process that is killed has lost nothing.
        self._file = self.path.open("ab", buffering=0)
        self._size = self._file.tell()
        return self._file

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def begin_log(folder: PipelineFolder, now: float, keep: int = MOST_LOGS) -> DriverLog | None:
    """Return the log of an attempt that begins; None where the volume does not take one.

    Args:
        folder: the pipeline's.
        now: seconds since the epoch.
        keep: logs that stay, this one among them.
    """
    path = folder.path / name_log(now)
    try:
        folder.logs.mkdir(parents=True, exist_ok=True)
        path.touch()
        _trim(folder.logs, keep)
    except OSError:
        return None
    return DriverLog(path)


def list_parts(path: Path) -> list[Path]:
    """Return the files of a log, the oldest first."""
    return [part for part in (path.with_suffix(BEFORE_SUFFIX), path) if part.is_file()]


def _trim(folder: Path, keep: int) -> None:
    """Remove all but the newest, by names that sort by time."""
    for path in sorted(folder.glob(f"*{SUFFIX}"))[: -max(1, keep)]:
        for part in list_parts(path):
            part.unlink(missing_ok=True)
