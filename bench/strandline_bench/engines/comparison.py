"""Compares Strandline, Ray Data, Cosmos-Xenna, datatrove, process pools, and bare actors."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace

from strandline_bench.engines.cases import Case, build_case, list_names
from strandline_bench.engines.rivals.index import RIVALS, Rival
from strandline_bench.engines.rows import list_rows
from strandline_bench.engines.trials import Trial, run_apart
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row


def measure_engines(scale: Scale) -> dict[str, list[Row]]:
    """Measure every engine on every case that it supports. Each run has its own process.

    Returns:
        The rows of each case.
    """
    rows = {}
    for name in scale.cases or list_names():
        case = build_case(name, scale.folder, is_quick=scale.is_quick)
        rivals = [rival for rival in RIVALS if name in rival.cases]
        rows[name] = list_rows(case, _compare(scale, case, rivals))
    return rows


def _compare(scale: Scale, case: Case, rivals: list[Rival]) -> dict[str, list[Trial]]:
    seen: dict[str, list[Trial]] = {rival.name: [] for rival in rivals}
    turns = scale.turns or scale.pick(5, 1)
    for turn in range(turns):
        # Alternate the order, because the machine may become slower or faster over time.
        for rival in reversed(rivals) if turn % 2 else rivals:
            trials = seen[rival.name]
            if trials and trials[-1].trouble:
                continue  # a repeated timeout would only cost the same time again
            trial = _run_once(scale, case, rival)
            if case.expected is None and not trial.trouble:
                # The first run of an example sets its expected result, which all others must match.
                case = replace(case, expected=trial.summary)
            trials.append(trial)
            sys.stderr.write(f"  {case.name}, turn {turn + 1}: {rival.name}: {_describe(trial)}\n")
    return seen


def _run_once(scale: Scale, case: Case, rival: Rival) -> Trial:
    scale.runs += 1
    folder = scale.folder / f"{scale.runs}"
    try:
        return run_apart(rival, case, folder, is_quick=scale.is_quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _describe(trial: Trial) -> str:
    return trial.trouble or f"{trial.seconds:.2f} s"
