"""Measures two commits alternately on one machine, and finds regressions larger than the noise."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from strandline_bench.history.figures import Figure, read_figures

TURNS = 5
LEAST = 0.05  # smaller relative changes are ignored
_PACKAGES = ("bench", "crds", "operator", "pipelines")

Turn = Mapping[str, Figure]


class Regression(NamedTuple):
    """A figure that became worse.

    Attributes:
        before, now: medians of both commits.
    """

    what: str
    before: float
    now: float
    unit: str

    def __str__(self) -> str:
        change = abs(self.now / self.before - 1) if self.before else 1.0
        return f"{self.what}: {self.before:g} → {self.now:g} {self.unit}, {change:.0%} worse"


def find_regressions(before: Sequence[Turn], now: Sequence[Turn]) -> list[Regression]:
    """Return the figures that are clearly worse in every current turn than in every previous turn.

    Figures without a target are left out, because it is unknown whether more or less is better.
    """
    regressions = []
    for what, figure in now[0].items():
        old, new = ([turn[what] for turn in turns if what in turn] for turns in (before, now))
        if figure.has_ceiling is None or not old or len(new) < len(now):
            continue
        first, last = (statistics.median(each.number for each in side) for side in (old, new))
        is_apart = all(mine.is_worse(other) for mine in new for other in old)
        if is_apart and abs(last - first) > LEAST * abs(first):
            regressions.append(Regression(what, first, last, figure.unit))
    return regressions


def compare(root: Path, commit: str, arguments: Sequence[str]) -> list[Regression]:
    """Measure another commit and the working tree, turn by turn.

    Args:
        root: root of the repository.
        arguments: arguments of each run, such as the names of benchmarks.

    Raises:
        subprocess.CalledProcessError: if the commit does not exist, or a run failed.
    """
    turns: dict[Path, list[Turn]] = {}
    with checked_out(root, commit) as other:
        for turn in range(TURNS):
            for tree in (other, root) if turn % 2 else (root, other):
                turns.setdefault(tree, []).append(_run(tree, arguments))
        return find_regressions(turns[other], turns[root])


@contextmanager
def checked_out(root: Path, commit: str) -> Iterator[Path]:
    """Check out a commit into another folder for the duration of the block."""
    with tempfile.TemporaryDirectory(prefix="strandline-bench-") as folder:
        tree = Path(folder) / "other"
        git = ["git", "-C", str(root), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)  # noqa: S603 - git
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)  # noqa: S603 - the same


def _run(tree: Path, arguments: Sequence[str]) -> Turn:
    path = os.pathsep.join(str(tree / package) for package in _PACKAGES)
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, str(tree / "bench" / "run.py"), *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path},  # takes precedence over installed packages
        stdout=subprocess.PIPE,
        check=True,
    )
    return read_figures(done.stdout.decode())
