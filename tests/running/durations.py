"""Reads and writes the duration of each test file by tier: `tests/durations.json`.

`make test-all` writes the file. Test processes use it to start the longest files first, and tests
compare the budgets of the first tier with it.
"""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]
DURATIONS = ROOT / "tests" / "durations.json"
LEAST = 1.0  # seconds; shorter files are not listed


def read_durations(path: Path = DURATIONS) -> dict[str, dict[str, float]]:
    """Return the seconds of each file, by group."""
    durations: dict[str, dict[str, float]] = json.loads(path.read_text(encoding="utf-8"))
    return durations


def read_longest(path: Path = DURATIONS) -> dict[str, float]:
    """Return the seconds of each file in the group where it takes longest."""
    longest: dict[str, float] = {}
    for seconds in read_durations(path).values():
        for name, duration in seconds.items():
            longest[name] = max(duration, longest.get(name, 0.0))
    return longest


def merge_durations(report: Path, path: Path, group: str) -> None:
    """Replace the durations of a group with those of a report. Do nothing if there is no report."""
    if report.is_file():
        durations = read_durations(path) | {group: read_report(report)}
        ordered = {name: durations[name] for name in sorted(durations)}
        path.write_text(json.dumps(ordered, indent=2) + "\n", encoding="utf-8")


def read_report(report: Path) -> dict[str, float]:
    """Return the seconds of each test file, including fixtures.

    Args:
        report: output of pytest's `--junitxml`.
    """
    totals: dict[str, float] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest's own
        name = find_file(case.attrib["classname"])
        totals[name] = totals.get(name, 0.0) + float(case.attrib["time"])
    return {name: round(total, 1) for name, total in sorted(totals.items()) if total >= LEAST}


def find_file(classname: str) -> str:
    """Return the file of a test. Classes in the test's ID follow the file's name."""
    parts = classname.split(".")
    while parts and not (ROOT / f"{'/'.join(parts)}.py").is_file():
        parts.pop()
    return f"{'/'.join(parts)}.py"
