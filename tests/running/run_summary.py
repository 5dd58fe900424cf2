"""The last lines of a run of the tests."""

from __future__ import annotations

import pytest

from untested import describe_untested

__all__ = ["pytest_terminal_summary"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line what was not tested."""
    skipped = terminalreporter.getreports("skipped")
    reasons = [str(report.longrepr[2]) for report in skipped if isinstance(report.longrepr, tuple)]
    if line := describe_untested(reasons):
        terminalreporter.write_line(line, yellow=True)
