"""`make mutants`: plant faults into modules that decide; first-tier tests must fail.

Draws mutants for SECONDS_TO_RUN seconds (600 by default; inf tries all). SEED=... repeats the draw,
and ONLY=... takes every mutant whose line contains the text. `alive.toml` lists the mutants that
may survive.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mutant_runs import Fate, load, run
from mutant_trials import LEAST, SHARE, Trial, try_all
from mutations import Mutant, list_mutants

ROOT = Path(__file__).parents[2]
ALIVE = Path(__file__).with_name("alive.toml")
ENOUGH = 0.95
PATIENCE = 1000.0
SHOWN = 100  # characters of the tests' names
# A fault that a few random examples miss is not a finding. The first tier must suffice.
OPTIONS = ("--hypothesis-profile=hundred", "--tier=first")
LEDGER = ("tests/laws", "tests/ledger")
API = (
    "tests/api/test_retry_law.py",
    "tests/api/test_retry_layers.py",
    "tests/api/test_evidence.py",
)
DECIDE = "operator/strandline_operator/decide"
# Operator tests of whole runs, which are slow and find nothing that the others miss.
STORIES = {"chaos", "decide_cuts", "enact_cut_short"}
# Operator tests that do not involve decisions.
ELSEWHERE = {"kubernetes_client", "namespace_defaults", "operator_command", "listening", "watch"}
# A module's file, and its package's tests, starting with the fastest and most specific.
TARGETS = {
    "pipelines/strandline/ledger/tally.py": LEDGER,
    "pipelines/strandline/ledger/writer/writer.py": ("tests/ledger", "tests/laws"),
    "pipelines/strandline/ledger/access/lease.py": (
        "tests/ledger/test_lease.py",
        "tests/ledger",
    ),
    "pipelines/strandline/ledger/quarantine.py": (
        "tests/ledger/test_suspects.py",
        "tests/ledger",
    ),
    "pipelines/strandline/engine/flow/suspects.py": (
        "tests/engine/test_held_suspects.py",
        "tests/engine/test_flow.py",
    ),
    "crds/strandline_api/law/retry.py": API,
    "crds/strandline_api/outcome/evidence.py": API,
}


def main() -> int:
    """Draw and try mutants. Return exit code 1 if too many unlisted mutants survive."""
    seconds = float(os.environ.get("SECONDS_TO_RUN", "600"))
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(1_000_000))
    only = os.environ.get("ONLY", "")
    named = read_alive()
    drawn = [(path, mutant) for path, mutant in list_all() if only in f"{mutant}"]
    random.Random(seed).shuffle(drawn)
    print(f"{len(drawn)} mutants, drawn for {seconds:g} s with SEED={seed}", flush=True)
    load()
    end = time.monotonic() + seconds
    fates = Counter({"alive, and may": sum(str(mutant) in named for _, mutant in drawn)})
    groups: dict[tuple[str, ...], list[Trial]] = {}
    for path, mutant in drawn:
        if str(mutant) not in named:
            groups.setdefault((*find_tests(path), *OPTIONS), []).append(Trial(ROOT / path, mutant))
    # Forked test processes would remove a `TemporaryDirectory` when they exit.
    folder = tempfile.mkdtemp(prefix="mutants-")
    try:
        left = sum(map(len, groups.values()))
        for tests, trials in groups.items():
            share = (end - time.monotonic()) * len(trials) / left
            print(f"{len(trials)} of them for {share:.0f} s: {' '.join(tests)[:SHOWN]}", flush=True)
            fates.update(try_for(share, tests, trials, Path(folder, "log")))
            left -= len(trials)
    finally:
        shutil.rmtree(folder)
    tried = sum(fates[fate] for fate in Fate)
    share = 1 - fates[Fate.ALIVE] / tried if tried else 1.0
    print(f"{tried} tried, {share:.1%} killed; {dict(fates)}")
    return 0 if share >= ENOUGH else 1


def try_for(
    seconds: float, tests: tuple[str, ...], trials: list[Trial], log: Path
) -> Iterator[Fate]:
    """Try the faults of modules with the same tests, and print the survivors."""
    end, length = time.monotonic() + seconds, 0.0
    whole = log.with_suffix(".whole")
    for (path, mutant), first in zip(trials, try_all(trials, tests, log), strict=True):
        fate = first
        if first is Fate.ALIVE:  # maybe visible only in a new process
            length = length or measure(tests, whole)
            fate, _ = run(mutant, path, tests, whole, LEAST + SHARE * length)
        if fate is Fate.ALIVE:
            print(f"{fate}: {path.relative_to(ROOT)}:{mutant.line} {mutant}", flush=True)
        yield fate
        if time.monotonic() > end:
            return


def list_all() -> Iterator[tuple[str, Mutant]]:
    """Yield every mutant of every target with its file."""
    for path in list_targets():
        module = ".".join(Path(path).with_suffix("").parts[1:])
        yield from ((path, mutant) for mutant in list_mutants(module, (ROOT / path).read_text()))


def list_targets() -> list[str]:
    """Return the files of all target modules, relative to the repository."""
    decide = sorted((ROOT / DECIDE).rglob("[a-z]*.py"))
    return [*TARGETS, *(str(path.relative_to(ROOT)) for path in decide)]


def find_tests(path: str) -> tuple[str, ...]:
    """Return the tests of a module's package."""
    return TARGETS.get(path) or _find_operator_tests()


def _find_operator_tests() -> tuple[str, ...]:
    """Return decision tests first, and replays of recordings, the slowest, last."""
    left_out = {f"test_{name}.py" for name in STORIES | ELSEWHERE}
    paths = (ROOT / "tests/operator").glob("test_*.py")
    chosen = [path for path in paths if path.name not in left_out]
    chosen.sort(key=lambda path: ("recorded" in path.name, "decide" not in path.name, path.name))
    return tuple(str(path.relative_to(ROOT)) for path in chosen)


def measure(tests: tuple[str, ...], log: Path) -> float:
    """Return the CPU seconds of the tests without a fault.

    Raises:
        RuntimeError: if the tests fail.
    """
    fate, seconds = run(None, ROOT, tests, log, PATIENCE)
    if fate is not Fate.ALIVE:
        raise RuntimeError(f"without a fault, {' '.join(tests)}: {fate}\n{log.read_text()[-2000:]}")
    return seconds


def read_alive() -> dict[str, str]:
    """Return the mutants that may survive, with the reasons."""
    return {one["mutant"]: one["why"] for one in tomllib.loads(ALIVE.read_text())["alive"]}


if __name__ == "__main__":
    raise SystemExit(main())
