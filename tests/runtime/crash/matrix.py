"""Every named step × every fault × three engines: what is to happen, and a run that shows it.

A case begins on a copy of a volume that an earlier run has left, whose input has changed since, so
that there is something to skip, to replace and to remove. The fault enters a real run through its
environment; what must follow is written down here, case by case.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gather_stages import LARGE
from jobs import Job, end_strays
from strandline.storage.faults import ACTIONS, STEPS
from strandline_api.outcome.exit_codes import ExitCode

ENGINES = ("inline", "processes", "ray")
KILLED = 137
# The step's number in one process where the first time is not the most telling one, or not the
# only one.
TIMES = {
    "output.opened": (2,),
    "output.written": (3,),
    "output.synced": (4,),
    "output.renamed": (5,),
    "attempt.written": (1, 2),  # as the attempt begins and as it ends
    "attempt.synced": (1, 2),
    "attempt.renamed": (1, 2),
    "commit.written": (1, 4),  # of the lease, and of finished sources
}
WORKERS = frozenset(
    {"output.placed", "output.opened", "output.written", "output.synced", "output.renamed"}
)
LEDGER = frozenset(
    {
        "listing.marked",
        "piece.kept",
        "source.settled",
        "commit.begun",
        "commit.cleaned",
        "shard.appended",
        "shard.synced",
        "commit.synced",
    }
)
# An error at these ends nothing, by design, and why.
TOLERATED = {
    "lease.ended": "all is done; a lease that is not handed back goes with its process",
}
SOURCES = 9
STAGES = ("gather_stages", "kill_stages", "partition_stages", "streaming_stages")


@dataclass(frozen=True, slots=True)
class Case:
    """A fault: what happens in which engine, the nth time that one process reaches a step."""

    engine: str
    step: str
    action: str
    nth: int

    @property
    def kind(self) -> str:
        """What the step is one of."""
        return self.step.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.engine} {self.step}#{self.nth} {self.action}"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a case came to.

    Attributes:
        fired: what the fault port has written down; empty where nothing fired.
        code: exit code of the disturbed run.
        rerun: that of the run after it.
        problems: what is not as it has to be in the end.
        log: the end of what each of the two runs has printed.
    """

    case: Case
    fired: str
    code: int
    rerun: int
    problems: tuple[str, ...]
    log: str

    @property
    def faults(self) -> list[str]:
        """What is not as it was expected, a sentence each."""
        case, found = self.case, list(self.problems)
        if self.fired.split()[:2] != [case.step, case.action]:
            found.append("the fault has not fired")
        if self.code != expect_code(case):
            found.append(f"exit code {self.code} instead of {expect_code(case)}")
        if self.rerun:
            found.append(f"the run after it ended with exit code {self.rerun}")
        return found


def list_cases() -> list[Case]:
    """All cases, in the order of the steps."""
    return [
        Case(engine, step, action, nth)
        for engine in ENGINES
        for step in STEPS
        for nth in TIMES.get(step, (1,))
        for action in ACTIONS
    ]


def expect_code(case: Case) -> int:
    """The exit code of the disturbed run."""
    if case.action != "kill":
        return ExitCode.COMPLETE if case.step in TOLERATED else ExitCode.VOLUME_UNUSABLE
    if case.engine == "inline":
        return KILLED
    if case.step in WORKERS:
        return ExitCode.COMPLETE  # another worker does its work
    if case.engine == "processes":  # all else is in the driver
        return KILLED
    if case.step in LEDGER or (case.step == "commit.written" and case.nth > 1):
        return ExitCode.APPLICATION_ERROR  # without a ledger the driver ends
    return KILLED


class Ground:
    """A job with a past: a volume to copy for each case, and what an undisturbed run makes of it.

    Args:
        folder: for all of it.
        describe: the pipeline's `spec`, of what has the texts that are listed.
        is_warm: runs of one process are forked from one that has loaded all they need.
    """

    def __init__(
        self,
        folder: Path,
        describe: Callable[[str], dict[str, Any]] | None = None,
        *,
        is_warm: bool = True,
    ) -> None:
        self._folder = folder
        self._texts = folder / "texts"
        self._texts.mkdir(parents=True)
        spec = (describe or describe_texts)(f"{self._texts}/*.txt")
        warm = STAGES if is_warm else None
        self.job = Job(_write_manifest(folder, spec), "inline", ("--workers", "1"), warm)
        for number in range(SOURCES):
            _write_text(self._texts / f"{number:02d}.txt", number)
        self.job.run_whole(folder / "past")
        self._change_input()
        volume = self._copy("whole")
        self.whole = self.job.run_whole(volume)
        self.artifacts = self.job.read_artifacts(volume)

    def close(self) -> None:
        """End what runs are forked from."""
        self.job.close()

    def carry_out(self, case: Case) -> Finding:
        """Disturb a run, run again at once, and look at everything that is left."""
        volume = self._copy(f"{case.engine}-{case.step}-{case.nth}-{case.action}")
        armed = {"STRANDLINE_FAULT": f"{case.step}:{case.action}:{case.nth}"}
        try:
            code = self.job.run(volume, armed, engine=case.engine)
            disturbed = self.job.read_log(volume)
            rerun = self.job.run(volume, engine=case.engine)
        finally:
            end_strays(volume)
        log = volume / "fault.log"
        finding = Finding(
            case,
            log.read_text() if log.exists() else "",
            code,
            rerun,
            tuple(self._find_problems(volume)),
            f"{disturbed}\n=== the run after it:\n{self.job.read_log(volume)}",
        )
        shutil.rmtree(volume)
        return finding

    def _find_problems(self, volume: Path) -> Iterator[str]:
        if self.job.digest_outputs(volume) != self.whole:
            yield "the output is not that of an undisturbed run"
        if self.job.read_artifacts(volume) != self.artifacts:
            yield "what was gathered is not what an undisturbed run gathers"
        yield from self.job.find_problems(volume)

    def _copy(self, name: str) -> Path:
        return shutil.copytree(self._folder / "past", self._folder / name, symlinks=True)

    def _change_input(self) -> None:
        for number in (0, 4, 5):  # of which the first had no rows
            _write_text(self._texts / f"{number:02d}.txt", number + 1)
            os.utime(self._texts / f"{number:02d}.txt", (time.time() + 5,) * 2)
        for number in (6, 7):
            (self._texts / f"{number:02d}.txt").unlink()
        for number in (11, 13):
            _write_text(self._texts / f"{number:02d}.txt", number)


def describe_texts(paths: str) -> dict[str, Any]:
    """A pipeline with fan-outs, filters, groups, and stages that gather."""
    return {
        "source": {"use": "files", "with": {"paths": [paths], "onRemoved": "Delete"}},
        "stages": [
            {"use": "read-files"},
            {"use": "kill_stages:SplitLines"},
            {"use": "gather_stages:LineMoments"},
            {"use": "gather_stages:LineMoments", "name": "large", "with": {"padding": LARGE}},
            {"use": "gather_stages:KeyList"},
            {"use": "kill_stages:JoinLengths", "group": 2},
        ],
        "sink": {"use": "jsonl", "batchSize": 2},
        # Who publishes in between is another process than the ledger, at any time.
        "checkpoint": {"interval": "1h", "keepLast": 1},
    }


def _write_manifest(folder: Path, spec: dict[str, Any]) -> Path:
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "crash"},
        "spec": spec,
    }
    manifest = folder / "crash.yaml"
    manifest.write_text(yaml.safe_dump(document))
    return manifest


def _write_text(path: Path, number: int) -> None:
    lines = [f"line {number}.{line}" * (line + 1) for line in range(number % 5)]
    lines.insert(number % 3, "")  # filtered
    path.write_text("\n".join(lines))
