"""Disturbs a supervised run at random for a given time, and finds violations.

`strandline run` runs a job as users do. The soak kills processes, requests stops, and makes the
disk fail. If no supervisor restarts the job, the soak does. A complete job is compared with an
undisturbed run, then the next job begins on a fresh volume. Random choices come from a seed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import yaml

from jobs import PATIENCE, TARGETS, Job, end_strays, find_victims
from strandline.storage.faults import STEPS
from strandline_api.outcome.causes import RETRYABLE_CAUSES
from strandline_api.outcome.exit_codes import ExitCode

STOPS = ("stop", "stop twice")
ERRORS = ("enospc", "eio")
KINDS = (*TARGETS, *STOPS, *ERRORS)
TERMINATED = 128 + signal.SIGTERM
PAUSES = (2.0, 10.0)


@dataclass(slots=True)
class Watch:
    """Finished sources of a job, which must not be opened again.

    Attributes:
        seen: number of all openings when each source was first seen as finished, by source.
    """

    job: Job
    volume: Path
    seen: dict[str, int] = field(default_factory=dict)

    def look(self) -> None:
        """Record the finished sources."""
        finished = self.job.read_finished(self.volume)
        opened = len(self.job.read_opened(self.volume))
        for key in finished:
            self.seen.setdefault(key, opened)

    def find_reopened(self) -> list[str]:
        """Return the sources that were opened after they were finished."""
        places = {key: place for place, key in enumerate(self.job.read_opened(self.volume))}
        return sorted(key for key, opened in self.seen.items() if places.get(key, -1) >= opened)


@dataclass(slots=True)
class Soak:
    """A series of disturbed jobs.

    Args:
        folder: folder for all files.
        seed: seed of all random choices.
        sources: number of sources in a job.
        say: receives a line per event.

    Attributes:
        counts: disturbances by kind.
        jobs: number of completed jobs.
        attempts: number of attempts of all jobs.
        violations: sentences about violated promises.
    """

    folder: Path
    seed: int
    sources: int
    say: Callable[[str], None]
    counts: Counter[str] = field(default_factory=Counter)
    jobs: int = 0
    attempts: int = 0
    violations: list[str] = field(default_factory=list)
    _rng: random.Random = field(init=False)
    _job: Job = field(init=False)
    _whole: dict[str, str] = field(init=False)
    _is_hurt: bool = field(init=False, default=False)  # a process of this run was killed

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._job = Job(write_job(self.folder, self.sources))
        volume = self.folder / "whole"
        if self._job.run(volume, {"DAWDLE_SECONDS": "0"}, engine="inline"):
            raise AssertionError(self._job.read_log(volume))
        self._whole = self._job.digest_outputs(volume)

    def run(self, is_over: Callable[[], bool]) -> None:
        """Disturb jobs until `is_over`. The last job then continues undisturbed to its end.

        A violation ends the soak immediately and keeps the volume.
        """
        while not self.violations:
            self._run_job(self.folder / f"job-{self.jobs}", is_over)
            if is_over():
                return

    def _run_job(self, volume: Path, is_over: Callable[[], bool]) -> None:
        watch = Watch(self._job, volume)
        try:
            code = -1
            while code != 0 and not self.violations:
                code = self._run_parent(volume, watch, is_over)
            if not self.violations:
                self._judge(volume, watch)
        finally:
            end_strays(volume)
        if not self.violations:
            shutil.rmtree(volume)

    def _run_parent(self, volume: Path, watch: Watch, is_over: Callable[[], bool]) -> int:
        """Start the run and disturb it until it ends.

        Return the exit code, which is 0 only if the job is complete.
        """
        armed, self._is_hurt = {} if is_over() else self._arm(volume), False
        with self._job.started(volume, armed, is_supervised=True) as process:
            expected = {0, int(ExitCode.VOLUME_UNUSABLE)} if armed else {0}
            while self._wait(process, volume, is_over) is None:
                watch.look()
                expected |= self._disturb(process)
            code = process.returncode
        # If a stop arrives while a killed attempt ends, the run reports the kill and makes no other
        # attempt.
        if self._is_hurt and int(ExitCode.INTERRUPTED) in expected:
            expected.add(read_last_code(volume))
        if code not in expected:
            self.violations.append(f"exit code {code}: {self._job.read_log(volume)}")
        log = volume / "fault.log"
        if not log.exists():
            return code
        self._note(log.read_text().split()[1])
        log.unlink()
        return code or -1  # after an absorbed error, the next run removes files

    def _wait(
        self, process: subprocess.Popen[bytes], volume: Path, is_over: Callable[[], bool]
    ) -> int | None:
        """Wait for the end of the run, or return None at the time of a disturbance."""
        begun, opened = time.monotonic(), len(self._job.read_opened(volume))
        pause, more = self._choose_moment()
        while process.poll() is None:
            time.sleep(0.05)
            waited = time.monotonic() - begun
            if waited > PATIENCE:
                self.violations.append(f"it does not end within {PATIENCE:.0f} s if left alone")
                process.kill()
            is_due = waited > pause or len(self._job.read_opened(volume)) >= opened + more
            if is_due and not is_over():
                return None
        return process.wait()

    def _choose_moment(self) -> tuple[float, int]:
        """Return how long to wait and how many sources to open, whichever comes first."""
        if self._rng.random() < 0.3:
            return self._rng.uniform(*PAUSES), self.sources
        return PATIENCE, self._rng.randint(1, max(2, self.sources // 8))

    def _disturb(self, process: subprocess.Popen[bytes]) -> set[int]:
        """Disturb a run, and return the exit codes that are then allowed."""
        kind = self._rng.choice((*TARGETS, *STOPS))
        if kind in STOPS:
            return self._stop(process, kind)
        victims = find_victims(process.pid, kind)
        if not victims:
            return set()
        with suppress(psutil.NoSuchProcess):
            self._rng.choice(victims).kill()
            self._note(kind)
            self._is_hurt = True
        if kind != "parent":
            return set()
        process.wait(PATIENCE)
        return {-signal.SIGKILL}

    def _stop(self, process: subprocess.Popen[bytes], kind: str) -> set[int]:
        process.terminate()
        if kind == "stop twice":
            time.sleep(self._rng.random())
            process.terminate()
        self._note(kind)
        process.wait(PATIENCE)
        return {int(ExitCode.INTERRUPTED), TERMINATED, -signal.SIGTERM}

    def _arm(self, volume: Path) -> dict[str, str]:
        """Return environment variables that sometimes make the disk fail once at a random step."""
        if not volume.exists() or self._rng.random() < 0.5:
            return {}
        step, action = self._rng.choice(STEPS), self._rng.choice(ERRORS)
        return {"STRANDLINE_FAULT": f"{step}:{action}:{self._rng.randint(1, 4)}"}

    def _judge(self, volume: Path, watch: Watch) -> None:
        """Compare a complete job with an undisturbed run."""
        watch.look()
        self.violations += self._job.find_problems(volume)
        self.violations += [f"opened again: {key}" for key in watch.find_reopened()]
        if self._job.digest_outputs(volume) != self._whole:
            self.violations.append("the output is not that of an undisturbed run")
        if not self._job.verify(volume):
            self.violations.append("`strandline verify` does not agree")
        attempts = len(list(self._job.find_folder(volume).attempts.iterdir()))
        self.jobs += 1
        self.attempts += attempts
        self.say(f"job {self.jobs}: complete after {attempts} attempts")

    def _note(self, kind: str) -> None:
        self.counts[kind] += 1
        self.say(kind)


def write_job(folder: Path, sources: int) -> Path:
    """Write a manifest whose generated input takes long enough, with unlimited retries."""
    texts = folder / "texts"
    texts.mkdir(parents=True)
    for number in range(sources):
        lines = [f"line {number}.{line}" * (line + 1) for line in range(number % 5)]
        lines.insert(number % 3, "")
        (texts / f"{number:05d}.txt").write_text("\n".join(lines))
    two = {"workers": {"min": 2, "max": 2}}
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "soak"},
        "spec": {
            "source": {"use": "files", "with": {"paths": [f"{texts}/*.txt"]}},
            "stages": [
                {"use": "kill_stages:LogOpened"},
                {"use": "read-files"},
                {"use": "kill_stages:Dawdle", **two},
                {"use": "kill_stages:SplitLines", **two},
                {"use": "kill_stages:JoinLengths", "group": 2},
            ],
            "sink": {"use": "jsonl", "batchSize": 2},
            "checkpoint": {"interval": "2s", "keepLast": 1},
            "retry": {
                "delay": "0s",
                # Also retry failed sources, because the soak cannot fix anything.
                "eligibleCauses": [cause.value for cause in RETRYABLE_CAUSES],
                "maxRetries": 10_000,
                "maxAttempts": 10_000,
                "disruptions": {"maxRetries": 10_000},
            },
            # Otherwise frequent kills would quarantine sources.
            "quarantine": {"after": 10_000},
        },
    }
    manifest = folder / "soak.yaml"
    manifest.write_text(yaml.safe_dump(document))
    return manifest


def read_last_code(volume: Path) -> int:
    """Return the exit code in the record of a job's last attempt."""
    *_, last = sorted(volume.rglob("attempts/*/attempt.json"))
    record = json.loads(last.read_text(encoding="utf-8"))
    return int((record.get("outcome") or {}).get("exitCode", 0))


def choose_seed() -> int:
    """Return the seed from the environment, or a random seed."""
    given = os.environ.get("SEED")
    return int(given) if given else random.SystemRandom().randrange(1_000_000)
