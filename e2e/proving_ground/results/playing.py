"""Runs scenarios: first in parallel those that can share the cluster, then the rest in sequence.

A scenario mostly waits, so two parallel scenarios on one node take little longer than one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from pytest import ExitCode  # noqa: PT013 - the only name

SIDE_BY_SIDE = 2
ENDED = {ExitCode.OK, ExitCode.NO_TESTS_COLLECTED}


def main(mark: str, options: Sequence[str]) -> int:
    """Run the scenarios that a mark expression selects, and return pytest's exit code."""
    together = ("-n", str(SIDE_BY_SIDE), "--dist", "loadgroup")
    codes = []
    for chosen, ways in ((f"({mark}) and not alone", together), (f"({mark}) and alone", ())):
        command = (sys.executable, "-m", "pytest", "e2e/scenarios", "-p", "no:cacheprovider")
        codes.append(subprocess.call([*command, "-m", chosen, *ways, *options]))
        if codes[-1] == ExitCode.INTERRUPTED:
            break
    return join_codes(codes)


def join_codes(codes: Sequence[int]) -> int:
    """Combine the exit codes of several pytest runs. A run that selects no tests is no failure."""
    failed = [code for code in codes if code not in ENDED]
    return failed[0] if failed else min(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
