"""Logs of drivers on a volume: one log for each attempt, limited in size and number.

People read the logs, but no code uses them as evidence. Therefore, nothing is synced, and an
attempt continues without a log if the volume can't be written. The module must not depend on the
writer or the content.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.driver_log import BEFORE_SUFFIX, SUFFIX, name_log

# Maximum bytes of the current file. The previous file of the log may have the same size.
MOST_BYTES = 16 * 2**20
MOST_LOGS = 10


class DriverLog:
    """A log in two files. If the current file grows too long, it replaces the previous file.

    Args:
        path: path of the current file. New data is appended to existing content.
        most: maximum bytes of the current file.
    """

    def __init__(self, path: Path, most: int = MOST_BYTES) -> None:
        self.path = path
        self._most = most
        self._file: BinaryIO | None = None
        self._size = 0

    def write(self, data: bytes) -> None:
        """Write data, ignoring errors: a full volume must not stop the logged process."""
        with suppress(OSError):
            file = self._file or self._open()
            if self._size and self._size + len(data) > self._most:
                self.close()
                self.path.replace(self.path.with_suffix(BEFORE_SUFFIX))
                file = self._open()
            self._size += file.write(data)

    def _open(self) -> BinaryIO:
        # Do not buffer, so that a killed process loses no data.
        self._file = self.path.open("ab", buffering=0)
        self._size = self._file.tell()
        return self._file

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def begin_log(folder: PipelineFolder, now: float, keep: int = MOST_LOGS) -> DriverLog | None:
    """Create the log of a new attempt. Return None if the volume can't be written.

    Args:
        folder: folder of the pipeline.
        now: time in seconds since the epoch.
        keep: number of logs to keep, including the new log.
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
    """Return the files of a log, oldest first."""
    return [part for part in (path.with_suffix(BEFORE_SUFFIX), path) if part.is_file()]


def _trim(folder: Path, keep: int) -> None:
    """Remove all but the newest logs. The names of logs sort by time."""
    for path in sorted(folder.glob(f"*{SUFFIX}"))[: -max(1, keep)]:
        for part in list_parts(path):
            part.unlink(missing_ok=True)
