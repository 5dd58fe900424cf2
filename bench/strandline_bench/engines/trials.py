"""Runs one engine on one case in a separate process with a timeout, and ends its Ray cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from strandline_bench.engines.cases import Case
from strandline_bench.engines.records import Summary, explain_difference
from strandline_bench.engines.rivals.index import HOW_TO_INSTALL, Rival
from strandline_bench.ground.folders import join_python_path

TRIAL = ("-m", "strandline_bench.engines.trial")  # arguments of the Python interpreter
MARK = "STRANDLINE_BENCH_RUN"  # environment variable that all processes of a run inherit
_START_SECONDS = 90.0  # added to the timeout, for imports and the start of Ray
_ERROR_CHARACTERS = 120
NOTHING = Summary()


@dataclass(frozen=True, slots=True)
class Trial:
    """Result of a run of one engine on one case.

    Attributes:
        seconds: seconds from the first call to the last result.
        start: seconds for the start of Ray, before the first call.
        first: seconds until the first batch of outputs.
        summary: count and checksums of the outputs.
        reached: seconds until the run reached most of the optimal rate.
        steady: rate in the later part, as a share of the optimum.
        trouble: reason that there is no result; empty if there is a result.
    """

    seconds: float = 0.0
    first: float | None = None
    summary: Summary = NOTHING
    reached: float | None = None
    steady: float | None = None
    trouble: str = ""
    start: float = 0.0

    @property
    def whole(self) -> float:
        """Seconds including the start of Ray."""
        return self.start + self.seconds


def run_apart(
    rival: Rival, case: Case, folder: Path, *, is_quick: bool, options: Sequence[str] = ()
) -> Trial:
    """Run a case in a separate process, and kill all remaining processes of the run.

    Args:
        folder: folder of this run, which must not exist.
    """
    if not rival.is_installed():
        return Trial(trouble=HOW_TO_INSTALL)
    folder.mkdir(parents=True)
    command = [sys.executable, *TRIAL, rival.name, case.name, str(folder), *options]
    command += ["--quick"] if is_quick else []
    log = folder / "log"
    with (
        log.open("wb") as file,
        subprocess.Popen(  # noqa: S603 - ours
            command,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            env=os.environ | {MARK: str(folder), "PYTHONPATH": join_python_path()},
        ) as process,
    ):
        try:
            answer, _ = process.communicate(timeout=case.limit + _START_SECONDS)
        except subprocess.TimeoutExpired:
            return Trial(trouble=f"did not end in {case.limit:g} s")
        finally:
            _end_all(process, folder)
    if process.returncode:
        return Trial(trouble=f"failed: {_find_error(log)}")
    return read_answer(answer, case)


def read_answer(answer: str, case: Case) -> Trial:
    """Return the process's result after checking its outputs."""
    measured: dict[str, Any] = json.loads(answer.strip().rpartition("\n")[2])
    trial = Trial(**measured | {"summary": Summary(*measured["summary"])})
    if trial.seconds > case.limit:
        return Trial(trouble=f"did not end in {case.limit:g} s")
    if case.expected is not None:
        difference = explain_difference(case.expected, trial.summary)
        if difference:
            return Trial(trouble=f"wrong: {difference}")
    return trial


def _end_all(process: subprocess.Popen[str], folder: Path) -> None:
    """End all processes of a run. Some engines leave actors outside the process tree."""
    ours = [
        candidate for candidate in psutil.process_iter() if _read_mark(candidate) == str(folder)
    ]
    for leftover in ours:
        with suppress(psutil.NoSuchProcess):
            leftover.kill()
    process.kill()
    psutil.wait_procs(ours, timeout=10)


def _read_mark(process: psutil.Process) -> str | None:
    with suppress(psutil.Error):
        return process.environ().get(MARK)
    return None


def _find_error(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    found = [line for line in lines if "Error" in line or "Exception" in line] or lines[-1:]
    return (found[-1] if found else "it said nothing")[:_ERROR_CHARACTERS]
