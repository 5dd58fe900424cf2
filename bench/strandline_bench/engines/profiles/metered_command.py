"""Runs `strandline` with a meter around each stage's calls: `python -m … FOLDER WORD...`.

Engine time does not belong to a stage, so the meter does not measure it.
"""

from __future__ import annotations

import cProfile
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from strandline.__main__ import main
from strandline.engine.call.payloads import measure
from strandline.engine.call.stage.stage_call import StageCall
from strandline.plan.task import Task

PROFILES = "STRANDLINE_BENCH_PROFILES"  # if set, also write profiles, which slows everything down
_stream = StageCall.stream


class Meter:
    """CPU time of one stage's calls, and their bytes of input and output."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.bytes = [0, 0]
        self.profile = cProfile.Profile() if os.environ.get(PROFILES) else None

    def draw(self, parts: Iterator[Any]) -> Iterator[Any]:
        """Yield the results of a call, and measure the CPU time until each result."""
        while True:
            begun = time.process_time()
            if self.profile:
                self.profile.enable()
            try:
                part = next(parts, None)
            finally:
                if self.profile:
                    self.profile.disable()
                self.seconds += time.process_time() - begun
            if part is None:
                return
            self.bytes[1] += _measure(part.data)
            yield part


def _measure(tasks: list[Task]) -> int:
    return sum(measure(task.data) for task in tasks)


def run_metered(folder: Path, words: list[str]) -> None:
    """Run a command, and write the measurements of each stage to a file."""
    meters: dict[str, Meter] = {}

    def stream(call: StageCall, tasks: list[Task], *others: Any, **named: Any) -> Iterator[Any]:  # noqa: ANN401 - as it comes
        meter = meters.setdefault(call._plan.name, Meter())  # noqa: SLF001 - nobody else asks
        meter.bytes[0] += _measure(tasks)
        return meter.draw(_stream(call, tasks, *others, **named))

    StageCall.stream = stream  # type: ignore[method-assign, assignment]
    sys.argv = ["strandline", *words]
    try:
        main()
    finally:
        for name, meter in meters.items():
            path = folder / f"{name}-{os.getpid()}"
            path.with_suffix(".json").write_text(json.dumps([meter.seconds, max(meter.bytes)]))
            if meter.profile:
                meter.profile.dump_stats(path.with_suffix(".prof"))


if __name__ == "__main__":
    run_metered(Path(sys.argv[1]), sys.argv[2:])
