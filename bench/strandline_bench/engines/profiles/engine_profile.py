"""Profiles the driver of Strandline's engine and a worker of each stage."""

from __future__ import annotations

import io
import os
import pstats
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from strandline_bench.engines.cases import build_case
from strandline_bench.engines.rivals.index import OURS
from strandline_bench.engines.trials import run_apart
from strandline_bench.engines.work.stages import PROFILE
from strandline_bench.ground.scale import Scale

CASES = ("tiny", "python-functions", "ratio")
LINES = 8
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_FOLDERS = re.compile(r"(?:/[^\s:]*)?/(?:site-packages|pipelines|python3\.\d+|bench)/")


def profile_engine(scale: Scale) -> str:
    """Return a text with the functions that have the most own time, for each case and process."""
    parts = []
    for name in CASES:
        folder = scale.folder / "run"  # a short path, because Ray puts its sockets below it
        folders = scale.folder / f"profiles-{name}"
        folders.mkdir()
        os.environ[PROFILE] = str(folders)
        case = build_case(name, scale.folder, is_quick=scale.is_quick)
        options = ("--profile", str(folders / "driver.prof"))
        try:
            trial = run_apart(OURS, case, folder, is_quick=scale.is_quick, options=options)
        finally:
            del os.environ[PROFILE]
            shutil.rmtree(folder, ignore_errors=True)
        head = f"{case.title}, profiled: {trial.trouble or f'{trial.seconds:.1f} s'}"
        parts += [head, *_describe_profiles(folders)]
    return "\n\n".join(parts) + "\n"


def _describe_profiles(folder: Path) -> list[str]:
    parts = []
    driver = folder / "driver.prof"
    if driver.exists():
        parts.append(f"the driver's loop:\n{describe_stats([driver])}")
    # The slowest stage's worker mostly sleeps or computes, so profile a worker of the first stage.
    workers = sorted(folder.glob("stage-*.prof"))
    if workers:
        parts.append(
            f"a worker ({workers[0].stem.rpartition('-')[0]}):\n{describe_stats(workers[:1])}"
        )
    return parts


def describe_stats(paths: Sequence[Path], most: int = LINES) -> str:
    """Return the first lines of profiles by own time, with paths shortened to the package."""
    out = io.StringIO()
    pstats.Stats(*map(str, paths), stream=out).sort_stats("tottime").print_stats(most)
    lines = [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]
    begun = next(index for index, line in enumerate(lines) if line.lstrip().startswith("ncalls"))
    total = next(line.strip() for line in lines if "function calls" in line)
    texts = (_ADDRESS.sub("", _FOLDERS.sub("", line)) for line in lines[begun:])
    return "\n".join([total, *texts])
