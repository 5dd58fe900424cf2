"""What a user's function says of a document, for all products; it needs no library."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

CORES = len(os.sched_getaffinity(0))
LEAST_SIDE = 24  # pixels of a picture that is kept
Program = Callable[[Path, Path], None]


def is_kept(text: str) -> bool:
    """Return what the user's function says of a text."""
    return text.count("e") % 3 != 0


def run_program(jobs: Mapping[str, Program]) -> None:
    """Run the job that the command line names: JOB INPUT OUTPUT."""
    jobs[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
