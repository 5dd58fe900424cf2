"""Crash cases: all named steps, faults, and engines, with the expected exit codes.

A case starts on a copy of a volume that an earlier run wrote. The input changed after that run, so
the disturbed run has sources to skip, to replace, and to remove. An environment variable injects
the fault into a real run.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from _pytest.mark import ParameterSet

from gather_stages import LARGE
from jobs import Job, end_strays
from strandline.run.attempt import engines as product
from strandline.storage.faults import ACTIONS, STEPS
from strandline_api.outcome.exit_codes import ExitCode

ENGINES = tuple(sorted(product.ENGINES))
# The parts of a run that run in their own process instead of the driver's, by engine.
SEPARATE = {
    "inline": frozenset[str](),
    "processes": frozenset({"worker"}),
    "ray": frozenset({"worker", "ledger"}),
}
KILLED = 137
# The fault fires at this pass through a step, counted from 1. The default is the first pass.
TIMES = {
    "output.opened": (2,),
    "output.written": (3,),
    "output.synced": (4,),
    "output.renamed": (5,),
    "attempt.written": (1, 2),  # at the start and at the end of the attempt
    "attempt.synced": (1, 2),
    "attempt.renamed": (1, 2),
    "commit.written": (1, 4),  # the lease, then finished sources
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
# Steps at which an error does not end the run, with the reason.
TOLERATED = {
    "lease.ended": "all work is done; a lease that is not released ends with its process",
}
SOURCES = 9
# Modules to import before the fork. Importing them takes half a second per run.
LOADED = (
    "gather_stages",
    "kill_stages",
    "partition_stages",
    "pyarrow.parquet",
    "strandline.engine.ray.pickling",
    "strandline.stages",
    "streaming_stages",
)
# Without concurrency, a slow stage would only delay the fault.
QUICK = {"SPLIT_SECONDS": "0"}


@dataclass(frozen=True, slots=True)
class Case:
    """A fault in a run of an engine, when a process passes a step for the nth time."""

    engine: str
    step: str
    action: str
    nth: int

    @property
    def kind(self) -> str:
        """Return the part of the product to which the step belongs."""
        return self.step.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.engine} {self.step}#{self.nth} {self.action}"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a case.

    Attributes:
        fired: line that the fault port wrote, or an empty string if no fault fired.
        code: exit code of the disturbed run.
        rerun: exit code of the next run.
        problems: differences from an undisturbed run.
        log: last lines that each of the two runs printed.
    """

    case: Case
    fired: str
    code: int
    rerun: int
    problems: tuple[str, ...]
    log: str

    @property
    def faults(self) -> list[str]:
        """Return the deviations from the expected result, as sentences."""
        case, found = self.case, list(self.problems)
        if self.fired.split()[:2] != [case.step, case.action]:
            found.append("the fault has not fired")
        if self.code != expect_code(case):
            found.append(f"exit code {self.code} instead of {expect_code(case)}")
        if self.rerun:
            found.append(f"the next run ended with exit code {self.rerun}")
        return found


def list_cases() -> list[Case]:
    """Return all cases in the order of their steps."""
    return [
        Case(engine, step, action, nth)
        for engine in ENGINES
        for step in STEPS
        for nth in TIMES.get(step, (1,))
        for action in ACTIONS
    ]


def in_full_tier(*cases: Case) -> list[ParameterSet]:
    """Return cases as parameters of tests in the third tier, with their names as ids."""
    return [pytest.param(case, marks=pytest.mark.full, id=str(case)) for case in cases]


def list_telling_cases(engine: str) -> list[Case]:
    """Return all kills in an engine's runs, and one error per step.

    Steps alternate between the two errors, which the product handles in the same way.
    """
    errors = [action for action in ACTIONS if action != "kill"]
    turns = {step: errors[number % len(errors)] for number, step in enumerate(STEPS)}
    return [
        case
        for case in list_cases()
        if case.engine == engine and case.action in {"kill", turns[case.step]}
    ]


def expect_code(case: Case) -> int:
    """Return the expected exit code of the disturbed run."""
    if case.action != "kill":
        return ExitCode.COMPLETE if case.step in TOLERATED else ExitCode.VOLUME_UNUSABLE
    separate = SEPARATE[case.engine]
    if "worker" in separate and case.step in WORKERS:
        return ExitCode.COMPLETE  # another worker repeats the call
    is_of_ledger = case.step in LEDGER or (case.step == "commit.written" and case.nth > 1)
    if "ledger" in separate and is_of_ledger:
        return ExitCode.APPLICATION_ERROR  # the driver needs its ledger to continue
    return KILLED


class Ground:
    """A job with a previous run: a volume to copy, and the result of an undisturbed run.

    Args:
        folder: folder for all files of the job.
        describe: function that returns the pipeline's `spec` for a path pattern of input texts.
    """

    def __init__(
        self, folder: Path, describe: Callable[[str], dict[str, Any]] | None = None
    ) -> None:
        self._folder = folder
        self._texts = folder / "texts"
        self._texts.mkdir(parents=True)
        spec = (describe or describe_texts)(f"{self._texts}/*.txt")
        manifest, options = _write_manifest(folder, spec), ("--workers", "1")
        self.job = Job(manifest, "inline", options, LOADED)
        self._unforked = Job(manifest, "inline", options)
        for number in range(SOURCES):
            _write_text(self._texts / f"{number:02d}.txt", number)
        self.job.run_whole(folder / "past")
        self._change_input()
        volume = self._copy("whole")
        self.whole = self.job.run_whole(volume)
        self.artifacts = self.job.read_artifacts(volume)

    def close(self) -> None:
        """Stop the processes that fork runs."""
        self.job.close()

    def carry_out(self, case: Case, *, is_forked: bool = True) -> Finding:
        """Disturb a run, run again, and compare the volume with that of an undisturbed run.

        Args:
            case: the fault and the engine.
            is_forked: True to fork runs of the engine `inline` from a process that has loaded all
                modules.
                If False, each run starts an interpreter.
        """
        job = self.job if is_forked else self._unforked
        volume = self._copy(f"{case.engine}-{case.step}-{case.nth}-{case.action}")
        variables = QUICK if case.engine == "inline" else {}
        armed = {"STRANDLINE_FAULT": f"{case.step}:{case.action}:{case.nth}"}
        try:
            code = job.run(volume, variables | armed, engine=case.engine)
            disturbed = job.read_log(volume)
            rerun = job.run(volume, variables, engine=case.engine)
        finally:
            end_strays(volume)
        log = volume / "fault.log"
        finding = Finding(
            case,
            log.read_text() if log.exists() else "",
            code,
            rerun,
            tuple(self._find_problems(volume)),
            f"{disturbed}\n=== the next run:\n{job.read_log(volume)}",
        )
        shutil.rmtree(volume)
        return finding

    def _find_problems(self, volume: Path) -> Iterator[str]:
        if self.job.digest_outputs(volume) != self.whole:
            yield "the output differs from that of an undisturbed run"
        if self.job.read_artifacts(volume) != self.artifacts:
            yield "the artifacts differ from those of an undisturbed run"
        yield from self.job.find_problems(volume)

    def _copy(self, name: str) -> Path:
        return shutil.copytree(self._folder / "past", self._folder / name, symlinks=True)

    def _change_input(self) -> None:
        for number in (0, 4, 5):  # the first run found no rows in text 0
            _write_text(self._texts / f"{number:02d}.txt", number + 1)
            os.utime(self._texts / f"{number:02d}.txt", (time.time() + 5,) * 2)
        for number in (6, 7):
            (self._texts / f"{number:02d}.txt").unlink()
        for number in (11, 13):
            _write_text(self._texts / f"{number:02d}.txt", number)


def describe_texts(paths: str) -> dict[str, Any]:
    """Return a pipeline with fan-outs, filters, groups, and stages that gather."""
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
        # Publish only at the end: on Ray, publishing and the ledger are in different processes.
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
    lines.insert(number % 3, "")  # an empty line, which is filtered
    path.write_text("\n".join(lines))
