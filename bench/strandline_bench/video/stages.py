"""Stages for video benchmarks: a slow one for clips, and variants that record memory."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_bench.ground.memory import read_own_memory
from strandline_packs.video.decode_frames import DecodeFrames
from strandline_packs.video.split_video import SplitVideo
from strandline_packs.video.transcode_clip import TranscodeClip

NOTES = "STRANDLINE_BENCH_NOTES"  # environment variable with the folder of memory records

_SAMPLE_SECONDS = 0.02


class LookAtClips(Stage):
    """Sleeps for each clip, as long as a model on a device would take, and logs the time."""

    class Params(Stage.Params):
        """Configures the duration of the sleep, and the folder of the log."""

        seconds: float
        folder: str

    params: Params

    def process(self, task: Task) -> Task:
        begun = time.monotonic()
        time.sleep(self.params.seconds * task.num_rows)
        with Path(self.params.folder, str(os.getpid())).open("a") as notes:
            notes.write(f"{begun} {time.monotonic()} {task.num_rows}\n")
        return task


class Watched(Stage):
    """Records the peak memory of its process in a file that belongs to the process."""

    def setup(self) -> None:
        super().setup()
        threading.Thread(target=_watch, args=(Path(os.environ[NOTES]),), daemon=True).start()


class WatchedSplit(Watched, SplitVideo):
    """Cuts videos and records memory."""


class WatchedDecode(Watched, DecodeFrames):
    """Decodes videos and records memory."""


class WatchedTranscode(Watched, TranscodeClip):
    """Encodes videos and records memory."""


def _watch(folder: Path) -> None:
    begun, most = read_own_memory(), 0
    while True:
        held = read_own_memory() - begun
        if held > most:
            most = held
            # Write each peak immediately, because the process may be killed at any moment.
            with (folder / str(os.getpid())).open("a") as notes:
                notes.write(f"{held}\n")
        time.sleep(_SAMPLE_SECONDS)
