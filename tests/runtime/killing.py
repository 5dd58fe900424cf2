"""Kill a process of a run at a chosen moment, run again to the end, and compare.

Used by the tests on a small input and by `make kills` on the real one. Whatever is random comes
from a seed; a moment is a step of the code or a number of written outputs, so it does not depend
on how fast the machine is.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import psutil
import yaml

from strandline.ledger.store import Store

HERE = Path(__file__).parent
TARGETS = ("driver", "worker", "ledger", "raylet")
STEPS = {
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
PATTERNS = {"worker": "ray::StageWorker", "ledger": "ray::LedgerActor", "raylet": "raylet"}
PATIENCE = 300.0
ROUNDS = 5
SMALL_SOURCES = 24


@dataclass(frozen=True, slots=True)
class Kill:
    """Whom to kill, and when: the nth time at a step, or after so many written outputs."""

    target: str
    step: str | None
    nth: int
    written: int
    delay: float

    def __str__(self) -> str:
        return f"{self.step} #{self.nth}" if self.step else f"after {self.written} written"


@dataclass(frozen=True, slots=True)
class Result:
    """What a kill came to.

    Attributes:
        has_fired: the process was really killed.
        kept: sources that the ledger held as finished right after.
        reopened: of those, the ones that were opened again.
        runs: runs it took to finish after the killed one.
        is_same: the output is that of a run nobody disturbed.
        is_verified: `strandline verify` agrees.
    """

    kill: Kill
    has_fired: bool
    kept: int
    reopened: tuple[str, ...]
    runs: int
    is_same: bool
    is_verified: bool

    @property
    def is_good(self) -> bool:
        """Everything that is promised held."""
        return self.has_fired and self.is_same and self.is_verified and not self.reopened


def choose_kill(target: str, seed: int, outputs: int) -> Kill:
    """The kill that a seed means; even seeds take a named step where the target has any.

    The driver has but one, so it takes it for every fourth seed.

    Args:
        outputs: files that an undisturbed run writes.
    """
    rng = random.Random(f"{target} {seed}")
    is_step = seed % (4 if target == "driver" else 2) == 0
    step = rng.choice(STEPS[target]) if STEPS[target] and is_step else None
    once = step in {"lease.written", "listing.marked"}
    nth = 1 if once else rng.randint(1, max(1, outputs // 8))
    return Kill(target, step, nth, rng.randint(1, max(1, outputs * 2 // 3)), rng.random() * 0.3)


class Job:
    """A manifest that can be run, killed and run again on volumes below one folder."""

    def __init__(self, manifest: Path, folder: Path) -> None:
        self._manifest = manifest
        self._folder = folder
        metadata = yaml.safe_load(manifest.read_text())["metadata"]
        self._place = Path(metadata.get("namespace", "default"), metadata["name"])

    def run_whole(self) -> dict[str, str]:
        """Run undisturbed; digests of the outputs by name."""
        volume = self._folder / "whole"
        with self._started(volume, {}) as process:
            code = process.wait(PATIENCE)
        if code:
            raise AssertionError((volume / "run.log").read_text()[-4000:])
        return self.digest_outputs(volume)

    def kill_and_finish(self, kill: Kill, name: str, whole: dict[str, str]) -> Result:
        """Carry a kill out, finish the run, and hold it against an undisturbed one."""
        volume = self._folder / name
        environment = {}
        if kill.step:
            environment["STRANDLINE_FAULT"] = f"{kill.step}:kill:{kill.nth}"
        with self._started(volume, environment) as process:
            has_fired = self._wait_and_kill(kill, volume, process)
            kept = self._read_finished(volume)
            opened = len(self._read_opened(volume))
            process.wait(PATIENCE)
        runs = self._finish(volume)
        again = self._read_opened(volume)[opened:]
        return Result(
            kill=kill,
            has_fired=has_fired,
            kept=len(kept),
            reopened=tuple(sorted(kept & set(again))),
            runs=runs,
            is_same=self.digest_outputs(volume) == whole,
            is_verified=self._verify(volume),
        )

    def digest_outputs(self, volume: Path) -> dict[str, str]:
        """Digests of all output files by name."""
        root = volume / self._place / "output"
        return {
            str(path.relative_to(root)): blake2b(path.read_bytes(), digest_size=16).hexdigest()
            for path in root.rglob("*")
            if path.is_file()
        }

    def _wait_and_kill(self, kill: Kill, volume: Path, process: subprocess.Popen[bytes]) -> bool:
        """Wait for the moment and kill, or see the fault port do it; True where it happened."""
        end = time.monotonic() + PATIENCE
        fault_log = volume / "fault.log"
        while time.monotonic() < end and process.poll() is None:
            if kill.step is None and self._count_outputs(volume) >= kill.written:
                time.sleep(kill.delay)
                return _kill_one(kill, process.pid)
            if kill.step and fault_log.exists():
                break
            time.sleep(0.02)
        return kill.step is not None and fault_log.exists()

    def _finish(self, volume: Path) -> int:
        for run in range(1, ROUNDS + 1):
            with self._started(volume, {}) as process:
                code = process.wait(PATIENCE)
            if code == 0:
                return run
        text = (volume / "run.log").read_text()[-4000:]
        msg = f"not finished after {ROUNDS} runs, the last exited {code}:\n{text}"
        raise AssertionError(msg)

    def _verify(self, volume: Path) -> bool:
        command = [sys.executable, "-m", "strandline", "verify", str(self._manifest)]
        command += ["--volume", str(volume)]
        with (volume / "run.log").open("ab") as log:
            done = subprocess.run(
                command, env=_environment(), stdout=log, stderr=log, check=False, timeout=PATIENCE
            )
        return done.returncode == 0

    def _read_finished(self, volume: Path) -> set[str]:
        ledger = volume / self._place / "ledger"
        if not (ledger / "data.mdb").exists():
            return set()
        store = Store(ledger, readonly=True)
        try:
            return {record.key for _, _, record in store.list_records()}
        finally:
            store.close()

    def _count_outputs(self, volume: Path) -> int:
        return len(list((volume / self._place / "output").glob("???/*/*")))

    def _read_opened(self, volume: Path) -> list[str]:
        log = volume / "opened.log"
        return log.read_text().splitlines() if log.exists() else []

    @contextmanager
    def _started(self, volume: Path, extra: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        volume.mkdir(parents=True, exist_ok=True)
        environment = _environment() | {
            "OPENED_LOG": str(volume / "opened.log"),
            "STRANDLINE_FAULT_LOG": str(volume / "fault.log"),
            **extra,
        }
        command = [sys.executable, "-m", "strandline", "run", str(self._manifest)]
        command += ["--volume", str(volume), "--json", "--no-supervise"]
        with (volume / "run.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            yield process
        finally:
            if process.poll() is None:
                _kill_tree(process.pid)
                process.wait()


def _environment() -> dict[str, str]:
    path = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def _kill_one(kill: Kill, driver: int) -> bool:
    """Kill one process of the run; False where there is none of that kind."""
    if kill.target == "driver":
        os.kill(driver, signal.SIGKILL)
        return True
    children = psutil.Process(driver).children(recursive=True)
    victims = [child for child in children if _title(child).startswith(PATTERNS[kill.target])]
    if not victims:
        return False
    victims[kill.written % len(victims)].kill()
    return True


def _title(process: psutil.Process) -> str:
    try:
        return process.name() if process.name() == "raylet" else " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _kill_tree(pid: int) -> None:
    for process in [*psutil.Process(pid).children(recursive=True), psutil.Process(pid)]:
        try:
            process.kill()
        except psutil.Error:
            continue
