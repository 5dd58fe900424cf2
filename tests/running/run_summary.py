"""Prints the last line of a test run."""

from __future__ import annotations

import pytest

from untested import describe_untested

__all__ = ["pytest_terminal_summary"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line with the skipped tests."""
    skipped = terminalreporter.getreports("skipped")
    reasons = [str(report.longrepr[2]) for report in skipped if isinstance(report.longrepr, tuple)]
    if line := describe_untested(reasons):
        terminalreporter.write_line(line, yellow=True)
