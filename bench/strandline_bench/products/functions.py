"""What a user's function says of a document, for all products; it needs no library."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

MARK = "STRANDLINE_BENCH_PRODUCT"  # of a product's processes: the job that they do
CORES = len(os.sched_getaffinity(0))
LEAST_SIDE = 24  # pixels of a picture that is kept
FRAME_RATE = 2  # frames a second of a video that are kept
FRAME_WIDTH, FRAME_HEIGHT = 256, 144  # pixels that they are shrunk to
_SHORTEST, _LONGEST = 3, 10  # letters of a word, on average
_LEAST_ALPHABETIC, _MOST_CUT = 0.8, 0.3  # shares of the words, and of the lines
_COMMON = frozenset(("the", "be", "to", "of", "and", "that", "have", "with"))
_LEAST_COMMON = 2
Program = Callable[[Path, Path], None]


def _has_letters(text: str) -> bool:
    """Return what takes no time, so that reading and writing are all there is."""
    return text.count("e") % 3 != 0


def _has_prose(text: str) -> bool:
    """Return whether a text is prose, by rules such as users write for themselves."""
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
# What the user's function says of a text.
is_kept = KEEPING.get(os.environ.get(MARK, ""), _has_letters)


def run_program(jobs: Mapping[str, Program]) -> None:
    """Run the job that the command line names: JOB INPUT OUTPUT."""
    jobs[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
