"""Stages that use memory: without limit, or a fixed large amount."""

from __future__ import annotations

import os
import time
from pathlib import Path

from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task

MB = 1_000_000


class Grow(Stage):
    """Uses memory without limit for the source `poison.txt`.

    A source `large.txt`, if listed, first takes all memory except 150 MB. The kernel kills the
    largest process, so the worker of `large.txt` dies instead of the growing worker.
    """

    def process(self, task: Task) -> Task:
        here = Path(os.environ["MARKERS"])
        name = Path(task.key).name
        with (here / "opened.log").open("a") as log:
            log.write(f"{name}\n")
        if name == "large.txt":
            held = []
            while (here / "group").exists() and _measure_room(here / "group") > 150 * MB:
                held.append(b"x" * (10 * MB))
            (here / "large").touch()
            _wait_for(here / "grown", 50)
        if name == "poison.txt":
            if "LARGE" in os.environ:
                _wait_for(here / "large", 300)
            grown = []
            for count in range(400):
                grown.append(b"x" * (10 * MB))
                if count == 200:
                    (here / "grown").touch()
        time.sleep(0.05)
        return task


def _measure_room(group: Path) -> int:
    """Return the free bytes of the cgroup. Reclaimable page cache counts as free."""
    is_v1 = (group / "memory.usage_in_bytes").exists()
    used = int((group / ("memory.usage_in_bytes" if is_v1 else "memory.current")).read_text())
    limit = int((group / ("memory.limit_in_bytes" if is_v1 else "memory.max")).read_text())
    facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return limit - used + int(facts.get("inactive_file", 0)) + int(facts.get("active_file", 0))


def _wait_for(marker: Path, tenths: int) -> None:
    for _ in range(tenths):
        if marker.exists():
            return
        time.sleep(0.1)
