"""Prints a table of realistic inputs with expected and actual results.

python tests/real_data/run_real_data.py [FAMILY ...]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import crawls
import folders
import lines
import media
import texts
from material import Case

CASES: list[Case] = [*lines.CASES, *folders.CASES, *crawls.CASES, *media.CASES, *texts.CASES]


def main() -> int:
    """Run all cases, or those of some families. Return 1 if a result is not as expected."""
    chosen = [case for case in CASES if not sys.argv[1:] or case.family in sys.argv[1:]]
    wrong = 0
    print("| family | input | expected | seen |\n|---|---|---|---|")
    for case in chosen:
        with tempfile.TemporaryDirectory() as folder:
            sight = case.play(Path(folder))
        is_met = case.is_met(sight)
        wrong += not is_met
        seen = "the same" if is_met else f"**{sight}**"
        print(f"| {case.family} | {case.words} | {case.expected} | {seen} |", flush=True)
    print(f"\n{len(chosen) - wrong} of {len(chosen)} are as expected")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
