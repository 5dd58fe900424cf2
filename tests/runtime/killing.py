"""Kills a process of a run at a chosen moment, runs again to the end, and compares the outputs.

Used by the tests on a small input and by `make kills` on the real one. Random choices come from a
seed. A moment is a step of the code or a number of written outputs, so the machine's speed does not
matter.
"""

from __future__ import annotations

import random
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from jobs import PATIENCE, Job, end_strays, find_victims
from strandline.run.insight.records import Witness, read_chain
from strandline_api.outcome.exit_codes import ExitCode

STEPS = {
    "parent": (),
    "driver": ("lease.written",),
    "worker": ("output.opened", "output.written", "output.synced", "output.renamed"),
    "ledger": (
        "listing.marked",
        "source.settled",
        "commit.begun",
        "commit.cleaned",
        "commit.written",
        "commit.synced",
    ),
    "raylet": (),
}
ROUNDS = 5
SMALL_SOURCES = 24


@dataclass(frozen=True, slots=True)
class Kill:
    """The process to kill, and when: at the nth pass of a step, or after a number of outputs."""

    target: str
    step: str | None
    nth: int
    written: int
    delay: float

    def __str__(self) -> str:
        return f"{self.step} #{self.nth}" if self.step else f"after {self.written} written"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a kill.

    Attributes:
        has_fired: True if the process was killed.
        kept: number of finished sources in the ledger right after the kill.
        reopened: finished sources that were opened again.
        runs: runs needed to finish after the killed run.
        is_same: True if the output equals that of an undisturbed run.
        is_verified: True if `strandline verify` finds no problem.
        is_left: True if a driver whose parent was killed has drained and ended.
    """

    kill: Kill
    has_fired: bool
    kept: int
    reopened: tuple[str, ...]
    runs: int
    is_same: bool
    is_verified: bool
    is_left: bool

    @property
    def is_good(self) -> bool:
        """Return True if nothing was lost, duplicated, or repeated."""
        is_whole = self.is_same and self.is_verified and not self.reopened
        return self.has_fired and is_whole and self.is_left


def choose_kill(target: str, seed: int, outputs: int) -> Kill:
    """Return the kill for a seed. Even seeds choose a named step if the target has steps.

    The driver has only one step, so only every fourth of its seeds chooses the step.

    Args:
        outputs: number of files that an undisturbed run writes.
    """
    rng = random.Random(f"{target} {seed}")
    is_step = seed % (4 if target == "driver" else 2) == 0
    step = rng.choice(STEPS[target]) if STEPS[target] and is_step else None
    once = step in {"lease.written", "listing.marked"}
    nth = 1 if once else rng.randint(1, max(1, outputs // 8))
    return Kill(target, step, nth, rng.randint(1, max(1, outputs * 2 // 3)), rng.random() * 0.3)


def kill_and_finish(
    job: Job, volume: Path, kill: Kill, whole: dict[str, str], rounds: int = ROUNDS
) -> Result:
    """Execute a kill on a fresh volume, finish the run, and compare with an undisturbed run."""
    environment = {"STRANDLINE_FAULT": f"{kill.step}:kill:{kill.nth}"} if kill.step else {}
    try:
        with job.started(volume, environment) as process:
            has_fired = _wait_and_kill(job, kill, volume, process)
            kept = job.read_finished(volume)
            opened = len(job.read_opened(volume))
            process.wait(PATIENCE)
        runs = _finish(job, volume, rounds)
    finally:
        end_strays(volume)
    again = job.read_opened(volume)[opened:]
    return Result(
        kill=kill,
        has_fired=has_fired,
        kept=len(kept),
        reopened=tuple(sorted(kept & set(again))),
        runs=runs,
        is_same=job.digest_outputs(volume) == whole,
        is_verified=job.verify(volume),
        is_left=kill.target != "parent" or _has_drained(job, volume),
    )


def _wait_and_kill(job: Job, kill: Kill, volume: Path, process: subprocess.Popen[bytes]) -> bool:
    """Wait for the moment and kill a process, or wait until the fault port kills it.

    Return True after a kill.
    """
    end = time.monotonic() + PATIENCE
    fault_log = volume / "fault.log"
    while time.monotonic() < end and process.poll() is None:
        if kill.step is None and job.count_outputs(volume) >= kill.written:
            time.sleep(kill.delay)
            return _kill_one(kill, process.pid)
        if kill.step and fault_log.exists():
            break
        time.sleep(0.02)
    return kill.step is not None and fault_log.exists()


def _finish(job: Job, volume: Path, rounds: int) -> int:
    code = None
    for run in range(1, rounds + 1):
        code = job.run(volume)
        if code == 0:
            return run
    msg = f"not finished after {rounds} runs, the last exited {code}:\n{job.read_log(volume)}"
    raise AssertionError(msg)


def _kill_one(kill: Kill, parent: int) -> bool:
    """Kill one process of the run. Return False if no process of the kind exists."""
    victims = find_victims(parent, kill.target)
    if not victims:
        return False
    victim = victims[kill.written % len(victims)]
    victim.kill()
    return True


def _has_drained(job: Job, volume: Path) -> bool:
    """Return True if the orphaned driver of the first attempt ended and recorded its end."""
    first = read_chain(job.find_folder(volume))[0]
    if first.outcome is None or first.witness is not Witness.DRIVER:
        return False
    is_gone = not psutil.pid_exists(first.pid)
    return is_gone and first.outcome.exit_code in {ExitCode.INTERRUPTED, ExitCode.COMPLETE}
