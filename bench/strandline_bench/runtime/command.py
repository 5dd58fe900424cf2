"""Measures a user's whole command from a cold start: to the first output, and to the end.

The comparison is a datatrove script that does the same to the same documents. Progress is observed
from outside, by new processes and written files.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from strandline.engine.ray.worker import StageWorker
from strandline_bench.engines.cases import build_case
from strandline_bench.engines.records import Summary, sum_files
from strandline_bench.engines.rivals.index import HOW_TO_INSTALL, find_rival
from strandline_bench.engines.trials import TRIAL
from strandline_bench.ground.folders import ROOT, join_python_path
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, format_number

_EXAMPLE = "text-documents"
_MANIFEST = f"pipelines/examples/{_EXAMPLE}.yaml"
_LOOK_SECONDS = 0.02
_OUTPUTS = "*.jsonl*"
# Process names of a Ray node and of Strandline's worker. Ray's agents also start with `ray::`.
_NODE, _WORKER = "raylet", f"ray::{StageWorker.__name__}"


@dataclass(frozen=True, slots=True)
class CommandTimes:
    """Seconds from the start of a command to an event, or None if the event was not observed.

    Attributes:
        node: a Ray node existed.
        worker: the first stage's worker existed.
        output: the first output existed.
        end: the command ended.
        summary: count and checksums of all outputs, not a time.
    """

    node: float | None
    worker: float | None
    output: float | None
    end: float
    summary: Summary


def measure_command(scale: Scale) -> list[Row]:
    """Run Strandline's and datatrove's commands in turns."""
    commands: dict[str, Callable[[Path], Sequence[str]]] = {
        "`strandline run`": lambda folder: _run_ours(folder, "processes"),
        "`strandline run --engine ray`": lambda folder: _run_ours(folder, "ray"),
        "`strandline run --engine inline`": lambda folder: _run_ours(folder, "inline"),
        "a script of datatrove's": _run_datatrove,
    }
    rival, turns = find_rival("datatrove"), scale.pick(5, 1)
    if not rival.is_installed():
        commands.popitem()
    seen: dict[str, list[CommandTimes]] = {name: [] for name in commands}
    for turn in range(turns):
        for index, (name, write) in enumerate(commands.items()):
            folder = scale.folder / f"command-{turn}-{index}"
            seen[name].append(_watch(write(folder), folder))
    _check_same([run for runs in seen.values() for run in runs])
    rows = [row for name, runs in seen.items() for row in _list_rows(name, runs)]
    return rows if rival.is_installed() else [*rows, Row("datatrove", HOW_TO_INSTALL)]


def _run_ours(folder: Path, engine: str) -> Sequence[str]:
    options = ["--volume", str(folder / "volume"), "--engine", engine]
    return [sys.executable, "-m", "strandline", "run", _MANIFEST, *options]


def _run_datatrove(folder: Path) -> Sequence[str]:
    build_case(_EXAMPLE, folder, is_quick=False)  # load the case now, outside the measured time
    return [sys.executable, *TRIAL, "datatrove", _EXAMPLE, str(folder)]


def _watch(command: Sequence[str], folder: Path) -> CommandTimes:
    folder.mkdir(parents=True)
    node = worker = output = None
    environment = {**os.environ, "PYTHONPATH": join_python_path()}
    begun = time.monotonic()
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(  # noqa: S603 - ours
            command, cwd=ROOT, env=environment, stdout=log, stderr=log
        ) as process,
    ):
        while process.poll() is None:
            now = time.monotonic() - begun
            names = [] if worker else _list_names(process.pid)
            node = node or (now if _NODE in names else None)
            worker = worker or (now if any(name.startswith(_WORKER) for name in names) else None)
            output = output or (now if _has_output(folder) else None)
            time.sleep(_LOOK_SECONDS)
        end = time.monotonic() - begun
    if process.returncode:
        lines = (folder / "log").read_text(errors="replace").splitlines()
        raise RuntimeError(f"{command[2]} ended with {process.returncode}: {lines[-1:]}")
    summary = Summary()
    for root in _list_roots(folder):
        summary = summary.add(sum_files(root))
    return CommandTimes(node, worker, output, end, summary)


def _list_names(pid: int) -> list[str]:
    names = []
    try:
        for process in psutil.Process(pid).children(recursive=True):
            command = process.cmdline()
            names += [process.name(), command[0]] if command else []
    except psutil.Error:
        return names  # a process ended while its name was read
    return names


def _list_roots(folder: Path) -> list[Path]:
    return [folder / "output", *folder.glob("volume/*/*/output")]


def _has_output(folder: Path) -> bool:
    return any(path.is_file() for root in _list_roots(folder) for path in root.rglob(_OUTPUTS))


def _check_same(seen: Sequence[CommandTimes]) -> None:
    if len({run.summary for run in seen}) != 1 or not seen[0].summary.items:
        raise RuntimeError("the commands did not write the same")


def _list_rows(name: str, runs: Sequence[CommandTimes]) -> list[Row]:
    parts: dict[str, Sequence[float | None]] = {
        "until a node of Ray's is there": [run.node for run in runs],
        "until its first worker is there": [run.worker for run in runs],
        "until the first output is there": [run.output for run in runs],
        "whole": [run.end for run in runs],
    }
    rows = []
    for part, found in parts.items():
        times = [second for second in found if second is not None]
        if times:
            what = f"{_EXAMPLE}, cold, {name}: {part}"
            rows.append(Row(what, format_number(median(times), "s")))
    return rows
