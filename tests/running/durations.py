"""Writes how long the tests of each file took, off the report of a whole run: `make durations`.

Usage: python tests/running/durations.py REPORT.xml DURATIONS.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]
LEAST = 2.0  # seconds; the order of shorter ones is of no account


def read_durations(report: Path) -> dict[str, float]:
    """Return the seconds of each file of tests, those of fixtures included.

    Args:
        report: what pytest writes with `--junitxml`.
    """
    totals: dict[str, float] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest's own
        name = find_file(case.attrib["classname"])
        totals[name] = totals.get(name, 0.0) + float(case.attrib["time"])
    return {name: round(total, 1) for name, total in sorted(totals.items()) if total >= LEAST}


def find_file(classname: str) -> str:
    """Return the file of a test; classes in it come after the file's name."""
    parts = classname.split(".")
    while parts and not (ROOT / f"{'/'.join(parts)}.py").is_file():
        parts.pop()
    return f"{'/'.join(parts)}.py"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(read_durations(Path(sys.argv[1])), indent=2) + "\n")
