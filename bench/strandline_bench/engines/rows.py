"""Builds the rows of the engines' table: medians, ratios, and targets."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from strandline_bench.engines.cases import Case
from strandline_bench.engines.rivals.index import OURS, RIVALS, Rival, find_rival
from strandline_bench.engines.trials import Trial
from strandline_bench.ground.table import Row, bound, format_number, reach

LONGEST_TO_RATE = 30.0
LEAST_STEADY = 90.0
BARE = "bare"
MOST_OVER_BARE = 1.2
DATATROVE = "datatrove"
MOST_OVER_DATATROVE = {"ours": 1.5, "ours-ledger": 2.0}

Seen = Mapping[str, Sequence[Trial]]


def list_rows(case: Case, seen: Seen) -> list[Row]:
    """Return two rows per engine of a case, without and with the start of its Ray cluster.

    A case with an optimum has two more rows per engine. The tiny case also has rows with the limits
    for Strandline.
    """
    rivals = [rival for rival in RIVALS if rival.name in seen]
    rows = [_measure_time(case, rival, seen) for rival in rivals]
    rows += [_measure_time(case, rival, seen, is_whole=True) for rival in rivals]
    if case.name == "tiny":
        rows += _compare(case, seen, OURS.name, BARE, MOST_OVER_BARE)
        for name, most in MOST_OVER_DATATROVE.items():
            rows += _compare(case, seen, name, DATATROVE, most)
    if case.optimum is not None:
        rows += [_measure_rise(case, rival, seen[rival.name]) for rival in rivals]
        rows += [_measure_steady(case, rival, seen[rival.name]) for rival in rivals]
    return rows


def find_ratio(seen: Seen, name: str, other: str, *, is_whole: bool = False) -> float | None:
    """Return the median ratio of two engines' times over all turns, or None if unknown.

    The ratio compares runs of the same turn, because the speed of the machine varies between turns.
    """
    pairs = zip(seen.get(name, ()), seen.get(other, ()), strict=False)
    ratios = [
        _read_seconds(own, is_whole=is_whole) / _read_seconds(rival, is_whole=is_whole)
        for own, rival in pairs
        if not own.trouble and not rival.trouble
    ]
    return statistics.median(ratios) if ratios else None


def find_trouble(trials: Sequence[Trial]) -> str:
    """Return the reason an engine has no result, or an empty string. One failed run is enough."""
    return next((trial.trouble for trial in trials if trial.trouble), "")


def _read_seconds(trial: Trial, *, is_whole: bool) -> float:
    return trial.whole if is_whole else trial.seconds


def _measure_time(case: Case, rival: Rival, seen: Seen, *, is_whole: bool = False) -> Row:
    what, trials = f"{case.title}: {rival.title}", seen[rival.name]
    what += ", its own start too" if is_whole else ""
    is_race = case.name in rival.beaten_in
    target = "≥ 1 × ours" if is_race else ""
    if trouble := find_trouble(trials):
        # Strandline beats an engine that timed out. Against an engine that lost work, there is no
        # result.
        return Row(what, trouble, target, True if is_race and "end" in trouble else None)
    middle = statistics.median(_read_seconds(trial, is_whole=is_whole) for trial in trials)
    seconds = format_number(middle, "s")
    ratio = None if rival is OURS else find_ratio(seen, rival.name, OURS.name, is_whole=is_whole)
    if ratio is None:
        return Row(what, seconds)
    text = f"{seconds}, {format_number(ratio, '× ours')}"
    return Row(what, text, target, ratio >= 1 if is_race else None)


def _compare(case: Case, seen: Seen, name: str, other: str, most: float) -> list[Row]:
    ratio = find_ratio(seen, name, other)
    what = f"{case.title}: {find_rival(name).title}, as a multiple of {find_rival(other).title}"
    return [] if ratio is None else [bound(what, ratio, most, "×")]


def _measure_rise(case: Case, rival: Rival, trials: Sequence[Trial]) -> Row:
    what = f"{case.title}: until 90 % of the optimum, {rival.title}"
    target = f"≤ {format_number(LONGEST_TO_RATE, 's')}" if rival is OURS else ""
    if trouble := find_trouble(trials):
        return Row(what, trouble, target)
    times = [trial.reached for trial in trials if trial.reached is not None]
    if len(times) * 2 <= len(trials):
        return Row(what, "not reached", target, False if target else None)
    middle = statistics.median([*times, *[float("inf")] * (len(trials) - len(times))])
    return (
        bound(what, middle, LONGEST_TO_RATE, "s")
        if target
        else Row(what, format_number(middle, "s"))
    )


def _measure_steady(case: Case, rival: Rival, trials: Sequence[Trial]) -> Row:
    what = f"{case.title}: steady, of the optimum, {rival.title}"
    if trouble := find_trouble(trials):
        return Row(what, trouble)
    shares = [trial.steady * 100 for trial in trials if trial.steady is not None]
    if not shares:
        return Row(what, "too few came out to tell")
    middle = statistics.median(shares)
    if rival is OURS:
        return reach(what, middle, LEAST_STEADY, "%")
    return Row(what, format_number(middle, "%"))
