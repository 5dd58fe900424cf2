"""Runs one engine on one case in this process: `-m strandline_bench.engines.trial`.

The last line of standard output is the measurement. The start of Ray is measured separately; the
start of workers and processes is included.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from strandline_bench.engines.cases import Case, build_case
from strandline_bench.engines.rates import find_steady_rate, find_time_to_rate
from strandline_bench.engines.records import Summary, read_marks, sum_files, sum_marks
from strandline_bench.engines.rivals.index import Rival, find_rival

_STORE_BYTES = 1_000_000_000
WINDOW = 5.0
SHARE = 0.9  # share of the optimum that counts as reached


def main() -> None:
    """Run the case and print the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rival")
    parser.add_argument("case")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--profile", type=Path, help="file for a profile of this process")
    options = parser.parse_args()
    rival = find_rival(options.rival)
    case = build_case(options.case, options.folder, is_quick=options.quick)
    profile = cProfile.Profile() if options.profile else None
    asked = time.monotonic()
    with _environment(rival, case, options.folder):
        started = time.monotonic()
        measured = run_trial(rival, case, options.folder, profile)
    measured["start"] = started - asked if rival.ray else 0.0
    if profile:
        profile.dump_stats(options.profile)
    sys.stdout.write(f"\n{json.dumps(measured)}\n")


def run_trial(
    rival: Rival, case: Case, folder: Path, profile: cProfile.Profile | None = None
) -> dict[str, Any]:
    """Return the seconds of a case, the seconds until its first batch, and the outputs."""
    moments: list[float] = []
    run: Callable[..., None] = rival.load()

    def begin() -> None:
        if profile:
            profile.enable()
        moments.append(time.monotonic())

    run(case, folder, begin)
    ended = time.monotonic()
    if profile:
        profile.disable()
    return measure(case, folder, moments[0], ended)


def measure(case: Case, folder: Path, begun: float, ended: float) -> dict[str, Any]:
    """Compute the measurements from the records of a run."""
    measured: dict[str, Any] = {"seconds": ended - begun}
    if case.manifest is not None:
        folders = [folder / "output", *folder.glob("volume/*/*/output")]
        found = Summary()
        for root in folders:
            found = found.add(sum_files(root))
        return measured | {"summary": found}
    marks = read_marks(folder)
    measured |= {"summary": sum_marks(marks), "first": marks[0].time - begun if marks else None}
    if case.optimum is not None and len(marks) > 1:
        measured |= {
            "reached": find_time_to_rate(marks, begun, case.optimum * SHARE, WINDOW),
            "steady": find_steady_rate(marks) / case.optimum,
        }
    return measured


def _environment(rival: Rival, case: Case, folder: Path) -> AbstractContextManager[None]:
    if not rival.ray:
        return nullcontext()
    from strandline_bench.ground.local_ray import started_ray  # noqa: PLC0415 - who needs no Ray has none on the clock

    has_dashboard = rival.ray == "dashboard"
    if has_dashboard:
        from strandline_bench.engines.rivals.xenna import ENVIRONMENT  # noqa: PLC0415 - needs what may not be there

        os.environ.update(ENVIRONMENT)
    return started_ray(folder, case.cpus, _STORE_BYTES, has_dashboard=has_dashboard)


if __name__ == "__main__":
    main()
