"""Merges many pieces into one file, in order and with few open files at a time.

The stage provides the function that joins files. The module must not depend on where the pieces
come from.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

from strandline.plan.errors import StrandlineError

FAN_IN = 64
FAULTS_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
Merge = Callable[[Sequence[Path], Path], None]


class MergeError(StrandlineError):
    """Raised if a stage can't merge its gathered pieces. The pieces are kept."""


class MergeTree:
    """Joins pieces in the order of their arrival.

    Files wait in levels. As soon as a level has `FAN_IN` files, they are joined into one file of
    the next level.

    Args:
        name: stage name, for messages.
        merge: joins several files into one.
        folder: existing, empty folder for intermediate files.
        must_stop: called before each join; if it returns True, the merge stops.
    """

    def __init__(
        self, name: str, merge: Merge, folder: Path, must_stop: Callable[[], bool]
    ) -> None:
        self._name = name
        self._merge = merge
        self._folder = folder
        self._must_stop = must_stop
        self._numbers = count()
        self._levels: list[list[Path]] = []

    def add(self, data: bytes) -> None:
        """Add the next piece.

        Raises:
            MergeError: if files can't be joined.
            OSError: if the disk is full or fails.
        """
        path = self._next_path()
        path.write_bytes(data)
        self._push(0, path)

    def finish(self, out: Path, first: Path | None = None) -> None:
        """Join all pieces into one file.

        Args:
            out: path of the result.
            first: previously merged file, which precedes all pieces, or None.

        Raises:
            MergeError: if files can't be joined.
        """
        left: list[Path] = []
        for level in self._levels:  # higher levels contain earlier pieces
            left = [*level, *left]
            if len(left) > FAN_IN:
                left = [self._join(left, self._next_path())]
        self._join([*([first] if first else []), *left], out, keep=first)
        self._levels = []

    def _push(self, level: int, path: Path) -> None:
        if level == len(self._levels):
            self._levels.append([])
        waiting = self._levels[level]
        waiting.append(path)
        if len(waiting) == FAN_IN:
            self._levels[level] = []
            self._push(level + 1, self._join(waiting, self._next_path()))

    def _join(self, paths: list[Path], out: Path, keep: Path | None = None) -> Path:
        if self._must_stop():
            raise MergeError(f"the merge of stage {self._name!r} was stopped")
        try:
            self._merge(paths, out)
        except Exception as error:
            if isinstance(error, OSError) and error.errno in FAULTS_OF_DISKS:
                raise
            what = " ".join(f"{type(error).__name__}: {error}".split())
            msg = f"stage {self._name!r} can't merge its gathered pieces: {what}"
            raise MergeError(msg) from error
        if not out.is_file():
            raise MergeError(
                f"stage {self._name!r} returned no file from the merge of {len(paths)} files"
            )
        for path in paths:
            if path != keep:
                path.unlink(missing_ok=True)  # may be missing: a merge may have moved it
        return out

    def _next_path(self) -> Path:
        return self._folder / f"{next(self._numbers):08d}"
