"""The three tiers of tests. A test's marks and folder determine its tier.

`make test` runs the first tier, `make test-more` groups of the second, and `make test-all` runs
every tier. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum


class Tier(StrEnum):
    """Tier of a test. The values of the last two tiers are also pytest marks."""

    FIRST = "first"
    MORE = "more"
    FULL = "full"


# Folders whose tests need a server or a program built from Go, or repeat a benchmark.
FOLDERS_OF_MORE = frozenset({"apiserver", "bench", "chart", "gitops", "stores"})
LONG_FILES = "long files"
COMMANDS = {
    Tier.FIRST.value: "make test",
    Tier.MORE.value: "make test-more",
    Tier.FULL.value: "make test-all",
    LONG_FILES: "make room R=FOLDER",
}


def find_tier(nodeid: str, marks: Collection[str]) -> Tier:
    """Return the tier of a test. A mark takes precedence over the folder.

    Args:
        nodeid: ID of the test in pytest, such as `tests/cli/test_run.py::test_help`.
        marks: names of the marks of the test.
    """
    for tier in (Tier.FULL, Tier.MORE):
        if tier in marks:
            return tier
    folder = nodeid.split("/")[1:2]
    return Tier.MORE if FOLDERS_OF_MORE.intersection(folder) else Tier.FIRST


def describe_rest(counts: dict[str, int]) -> str:
    """Describe the excluded tests in one sentence, with the command that runs them.

    Args:
        counts: number of excluded tests by tier, and of tests in long files by `LONG_FILES`.
    """
    parts = [
        f"{counts[part]} tests of `{command}`"
        for part, command in COMMANDS.items()
        if counts.get(part, 0) > 0
    ]
    return f"not in this selection: {', '.join(parts)}" if parts else ""
