"""The user functions that all products run on a document. Imports no product."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

MARK = "STRANDLINE_BENCH_PRODUCT"  # variable of all processes of a product: name of the job
CORES = len(os.sched_getaffinity(0))
LEAST_SIDE = 24  # minimum side of a kept picture in pixels
FRAME_RATE = 2  # kept frames per second of a video
FRAME_WIDTH, FRAME_HEIGHT = 256, 144  # size of a scaled frame in pixels
_SHORTEST, _LONGEST = 3, 10  # bounds of the average word length in letters
_LEAST_ALPHABETIC, _MOST_CUT = 0.8, 0.3  # minimum share of alphabetic words, maximum of cut lines
_COMMON = frozenset(("the", "be", "to", "of", "and", "that", "have", "with"))
_LEAST_COMMON = 2
Program = Callable[[Path, Path], None]


def _has_letters(text: str) -> bool:
    """Decide at almost no cost, so that reading and writing dominate."""
    return text.count("e") % 3 != 0


def _has_prose(text: str) -> bool:
    """Return whether a text is prose, by rules such as users write."""
    words = text.split()
    if not words or not _SHORTEST <= sum(map(len, words)) / len(words) <= _LONGEST:
        return False
    if sum(any(map(str.isalpha, word)) for word in words) < _LEAST_ALPHABETIC * len(words):
        return False
    lines = text.splitlines()
    if sum(line.rstrip().endswith(("...", "…")) for line in lines) > _MOST_CUT * len(lines):
        return False
    return len(_COMMON.intersection(map(str.lower, words))) >= _LEAST_COMMON


KEEPING: Mapping[str, Callable[[str], bool]] = {"filter": _has_letters, "words": _has_prose}
# The current job's decision on a text.
is_kept = KEEPING.get(os.environ.get(MARK, ""), _has_letters)


def run_program(jobs: Mapping[str, Program]) -> None:
    """Run the job of the command line: JOB INPUT OUTPUT."""
    jobs[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
