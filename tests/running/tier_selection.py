"""Adds the pytest options `--tier` and `--most-seconds`, which run a part of the tests.

The remaining tests are counted and reported.
"""

from __future__ import annotations

from collections import Counter

import pytest

from durations import read_durations
from tiers import LONG_FILES, Tier, describe_rest, find_tier

LAYOUT = "tests/architecture/"
LEFT_OUT = pytest.StashKey[Counter[str]]()
KEY = "strandline_left_out"  # key in the output that a pytest-xdist worker sends to the controller


def add_option(parser: pytest.Parser) -> None:
    """Add both options. If neither is set, pytest runs all given tests."""
    parser.addoption(
        "--tier", choices=[tier.value for tier in Tier], help="run the tests of this tier only"
    )
    parser.addoption(
        "--most-seconds", type=float, help="leave out files that take longer by durations.json"
    )


def select_tests(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect in place the tests of other tiers and of long files."""
    wanted, most = config.getoption("--tier"), config.getoption("--most-seconds")
    long = find_long_files(most) if most else frozenset()
    left_out: Counter[str] = Counter()
    config.stash[LEFT_OUT] = left_out
    selected, deselected = [], []
    for item in items:
        tier = find_tier(item.nodeid, {mark.name for mark in item.iter_markers()})
        if wanted and tier != wanted:
            left_out[tier.value] += 1  # pytest-xdist can send a plain text, but no `Tier`
        elif item.nodeid.partition("::")[0] in long:
            left_out[LONG_FILES] += 1
        else:
            selected.append(item)
            continue
        deselected.append(item)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = selected


def find_long_files(most_seconds: float) -> frozenset[str]:
    """Return the files whose first-tier tests take longer than this, except architecture tests."""
    seconds = read_durations()[Tier.FIRST.value]
    long = (name for name, duration in seconds.items() if duration > most_seconds)
    return frozenset(name for name in long if not name.startswith(LAYOUT))


class SelectionReport:
    """Writes the last line of a run, which reports the excluded tests."""

    def __init__(self) -> None:
        self._left_out: Counter[str] = Counter()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send a worker's counts to the controller."""
        counts = session.config.stash.get(LEFT_OUT, Counter())
        output = getattr(session.config, "workeroutput", None)
        if output is None:
            self._left_out |= counts
        else:
            output[KEY] = dict(counts)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object, error: object) -> None:
        """Read a worker's counts, which are equal in all workers."""
        self._left_out |= Counter(getattr(node, "workeroutput", {}).get(KEY, {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the line."""
        if line := describe_rest(dict(self._left_out)):
            terminalreporter.write_line(line, yellow=True)
