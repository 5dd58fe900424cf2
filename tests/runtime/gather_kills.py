"""Kill a run that gathers, a number of times, and compare what it has gathered in the end.

One volume is killed again and again, at steps and moments that come from a seed, while its input
changes now and then; in the end the moments must be those of an undisturbed run.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from gather_stages import LARGE
from jobs import Job, end_strays
from strandline.storage.faults import STEPS

SOURCES = 40
RELATIVE = 1e-12
STEPS_OF_GATHERING = tuple(
    step
    for step in STEPS
    if step.partition(".")[0] in {"piece", "shard", "merged", "pack", "gather", "artifacts"}
)


@dataclass(frozen=True, slots=True)
class Story:
    """What a number of kills came to.

    Attributes:
        fired: steps at which a run was killed, in order.
        problems: a sentence each; none is how it should be.
    """

    fired: list[str]
    problems: list[str]


class GatherKills:
    """A job that gathers, and what it gathers undisturbed.

    Args:
        folder: for all of it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._texts = folder / "texts"
        self._texts.mkdir(parents=True)
        self._job = Job(_write_manifest(folder, self._texts), "inline", ("--workers", "1"))

    def kill(self, seed: int, kills: int) -> Story:
        """Kill runs until so many kills have fired, let one end, and compare."""
        rng = random.Random(seed)
        volume = self._folder / f"killed-{seed}"
        for number in range(SOURCES):
            self._write(number, rng)
        fired: list[str] = []
        log = volume / "fault.log"
        try:
            while len(fired) < kills:
                self._job.run(volume, self._choose(rng, kills - len(fired)))
                if log.exists():
                    fired.append(log.read_text().split()[0])
                    log.unlink()
                self._change(rng)
            self._job.run_whole(volume)
        finally:
            end_strays(volume)
        whole = self._folder / f"whole-{seed}"
        self._job.run_whole(whole)
        problems = [*self._job.find_problems(volume), *self._compare(volume, whole)]
        return Story(fired, problems)

    def _choose(self, rng: random.Random, left: int) -> dict[str, str]:
        """Most kills are at the steps of gathering, in turn; the others at any step."""
        steps = STEPS if left % 3 == 0 else STEPS_OF_GATHERING
        return {"STRANDLINE_FAULT": f"{rng.choice(steps)}:kill:{rng.randint(1, 3)}"}

    def _change(self, rng: random.Random) -> None:
        """Add, change or remove a source, so that there is always something left to do."""
        number = rng.randrange(SOURCES)
        path = self._texts / f"{number:02d}.txt"
        if path.exists() and rng.random() < 0.3:
            path.unlink()
        else:
            self._write(number, rng)

    def _write(self, number: int, rng: random.Random) -> None:
        path = self._texts / f"{number:02d}.txt"
        path.write_text("\n".join("x" * rng.randint(1, 500) for _ in range(rng.randint(1, 4))))
        later = time.time() + rng.randint(1, 10**6)
        os.utime(path, (later, later))

    def _compare(self, volume: Path, whole: Path) -> Iterator[str]:
        ours, theirs = self._job.read_artifacts(volume), self._job.read_artifacts(whole)
        if ours.keys() != theirs.keys():
            yield f"artifacts are {sorted(ours)} instead of {sorted(theirs)}"
        for name in ours.keys() & theirs.keys():
            if name.endswith(".json"):
                yield from _compare_moments(name, json.loads(ours[name]), json.loads(theirs[name]))
            elif ours[name] != theirs[name]:
                yield f"{name} has other lines"


def _compare_moments(name: str, ours: dict[str, float], theirs: dict[str, float]) -> Iterator[str]:
    if ours["count"] != theirs["count"]:
        yield f"{name}: {ours['count']} are counted, of {theirs['count']}"
    for moment in ("mean", "variance"):
        if not math.isclose(ours[moment], theirs[moment], rel_tol=RELATIVE):
            yield f"{name}: the {moment} is {ours[moment]}, not {theirs[moment]}"


def _write_manifest(folder: Path, texts: Path) -> Path:
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "kills"},
        "spec": {
            "source": {
                "use": "files",
                "with": {"paths": [f"{texts}/*.txt"], "onRemoved": "Delete"},
            },
            "stages": [
                {"use": "read-files"},
                {"use": "kill_stages:SplitLines"},
                {"use": "gather_stages:LineMoments"},
                {"use": "gather_stages:LineMoments", "name": "large", "with": {"padding": LARGE}},
                {"use": "gather_stages:KeyList"},
            ],
            "sink": {"use": "jsonl"},
            "checkpoint": {"interval": "1s", "keepLast": 1},
        },
    }
    manifest = folder / "kills.yaml"
    manifest.write_text(yaml.safe_dump(document))
    return manifest
