"""How far the attempt is, written down every few seconds for other processes to read."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from strandline.cli.views.snapshot import Pace, spell_json, take_snapshot
from strandline.engine.core.ports import Progress
from strandline.storage.outputs.whole_files import show_whole

INTERVAL = 2.0


class ProgressFile:
    """Keeps the file up to date.

    Args:
        path: of the file; its folder may not be there yet.
        now: seconds from any fixed point.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        path: Path,
        now: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._now = now
        self._clock = clock
        self._begun = self._due = now()
        self._pace = Pace()

    def report(self, progress: Progress) -> None:
        """Write, where it is time to."""
        now = self._now()
        if now < self._due:
            return
        self._due = now + INTERVAL
        snapshot = take_snapshot(progress, now - self._begun, self._pace)
        content = {"pid": os.getpid(), "time": self._clock(), **spell_json(snapshot)}
        show_whole(self._path, json.dumps(content).encode())
