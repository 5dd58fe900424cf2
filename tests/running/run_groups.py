"""Runs groups for `make test-more`, `make test-all`, `make group`, and `.ci/run`.

    python tests/running/run_groups.py NAME ...          # these groups
    python tests/running/run_groups.py --changed [BASE]  # groups selected by the change since BASE
    python tests/running/run_groups.py --all             # every tier; writes tests/record.json

With `--budget-from SECONDS`, groups that no longer fit into CI's time are listed instead of run; CI
began SECONDS ago. `--first-tier SECONDS` is the duration of the first tier in this CI run.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from changed_jobs import ROOT, choose_for_change, read_groups
from durations import DURATIONS, merge_durations
from groups import Group
from record import UNKNOWN_SECONDS, Entry, list_names, read_record, write_entry
from schedule import Estimate, estimate_builds, fits, measure_slowness
from tiers import Tier

REPORTS = ROOT / ".cache" / "reports"
# Seconds of a full build on two cores. `make test-all` prints the actual durations.
BUILD_SECONDS = {
    "azure": 60.0,
    "browser": 60.0,
    "cluster": 300.0,
    "dns": 90.0,
    "gcs": 150.0,
    "helm": 210.0,
    "policies": 120.0,
    "readers": 180.0,
    "s3": 150.0,
}
IMAGES_SECONDS = 360.0  # for both images, which a node also needs

OF_MAKE = frozenset({"ARGS", "BASE", "G", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS"})
# Files that a recorded run writes. They do not count as uncommitted changes.
WRITTEN = (":!tests/record.json", ":!tests/durations.json")
STATUS = ("status", "--porcelain", "--untracked-files=no", "--", ".", *WRITTEN)


@dataclass(frozen=True, slots=True)
class Clock:
    """CI's time budget.

    Attributes:
        deadline: end of the budget on the monotonic clock, in seconds.
        slowness: duration on this machine as a multiple of the recorded duration.
    """

    deadline: float
    slowness: float

    @property
    def remaining(self) -> float:
        """Seconds until the deadline; negative after the deadline."""
        return self.deadline - time.monotonic()


class Runner:
    """Runs groups one after another and collects their results.

    Args:
        seed: seed of the groups' random examples.
        is_recording: whether to write results and durations to files of the repository.
    """

    def __init__(self, seed: int, *, is_recording: bool) -> None:
        self._seed = seed
        self._is_recording = is_recording
        self.results: list[tuple[str, str, float]] = []

    def run(self, group: Group) -> None:
        """Build a group's requirements, run the group, and store the result."""
        begun = time.monotonic()
        for target in group.builds:
            if not self._execute(["make", "--silent", target], output=subprocess.DEVNULL):
                self._end(group.name, "failed", begun, f"`make {target}` failed")
                return
        if group.builds:
            print(f"{group.name}: builds took {time.monotonic() - begun:.0f} s", flush=True)
            begun = time.monotonic()
        is_green = self._execute(make_command(group))
        self._end(group.name, "passed" if is_green else "failed", begun)

    def run_first_tier(self) -> None:
        """Run `make test`."""
        begun = time.monotonic()
        is_green = self._execute(["make", "--silent", "test"])
        self._end(Tier.FIRST.value, "passed" if is_green else "failed", begun)

    def _execute(self, command: list[str], output: int | None = None) -> bool:
        environment = make_environment(os.environ, self._seed)
        done = subprocess.run(command, cwd=ROOT, check=False, env=environment, stdout=output)
        return done.returncode == 0

    def _end(self, name: str, result: str, begun: float, note: str = "") -> None:
        seconds = time.monotonic() - begun
        self.results.append((name, result, seconds))
        print(f"{name}: {result} in {seconds:.0f} s {note}".rstrip(), flush=True)
        if self._is_recording:
            is_clean = not _read_git(*STATUS)
            kept = result if is_clean or result == "failed" else "uncommitted"
            commit = _read_git("rev-parse", "HEAD")
            write_entry(name, Entry(commit, round(seconds, 1), self._seed, kept))
            merge_durations(REPORTS / f"{name}.xml", DURATIONS, name)


def make_environment(inherited: Mapping[str, str], seed: int) -> dict[str, str]:
    """Return the environment of a group, without make's command line variables.

    make exports these variables, and a group would read `ARGS`, the names of groups, as the
    arguments of its own program.
    """
    kept = {name: value for name, value in inherited.items() if name not in OF_MAKE}
    return kept | {"SEED": str(seed)}


def make_command(group: Group) -> list[str]:
    """Return the command that runs a group."""
    if group.words:
        return ["make", "--silent", *group.words]
    report = f"--junitxml={REPORTS / group.name}.xml"
    folders = [f"tests/{folder}" for folder in group.folders]
    pytest = [sys.executable, "-m", "pytest", "--quiet", "--numprocesses", count_workers()]
    return [*pytest, f"--tier={group.tier}", "--durations=10", report, *folders]


def count_workers() -> str:
    """Return the number of test processes, which exceeds the cores because tests often wait."""
    return os.environ.get("WORKERS") or str(((os.cpu_count() or 1) * 3 + 1) // 2)


def estimate(group: Group) -> Estimate:
    """Return the expected duration of a group, based on the record."""
    entry = read_record().get(group.name)
    is_built = {name: _is_built(name) for name in group.builds}
    missing = estimate_builds(group.builds, is_built, BUILD_SECONDS)
    if group.name == "node" and not all(is_built.values()):
        missing += IMAGES_SECONDS
    return Estimate(entry.seconds if entry else UNKNOWN_SECONDS, missing)


def _is_built(target: str) -> bool:
    if target == "browser":
        return any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    words = ["make", "--silent", target, "BUILD=never"]
    return subprocess.run(words, cwd=ROOT, check=False, capture_output=True).returncode == 0


def _read_git(*words: str) -> str:
    command = ["git", *words]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout.strip()


def find_reason(group: Group, clock: Clock | None) -> str:
    """Return the reason to skip a group now, or an empty text if it can run.

    Args:
        clock: CI's time budget, or None outside of CI.
    """
    if group.needs_root and not (sys.platform == "linux" and os.geteuid() == 0):
        return "needs root on Linux"
    if clock is None or fits(expected := estimate(group), clock.slowness, clock.remaining):
        return ""
    needed = (expected.seconds + expected.build_seconds) * clock.slowness / 60
    return f"needs {needed:.0f} min, {max(clock.remaining, 0.0) / 60:.0f} min remain"


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--changed", nargs="?", const="", metavar="BASE")
    parser.add_argument("--all", action="store_true", help="every tier; writes the record")
    parser.add_argument("--dry-run", action="store_true", help="print the groups and run none")
    parser.add_argument("--budget-from", type=float, metavar="SECONDS")
    parser.add_argument("--first-tier", type=float, default=0.0, metavar="SECONDS")
    return parser.parse_args()


def choose_names(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Return the groups to run, in order, and CI's budget in minutes."""
    if arguments.changed is not None:
        return choose_for_change(arguments.changed)
    known = list_names()
    names = arguments.names or (known if arguments.all else [])
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"strandline: unknown group {unknown[0]!r}; the groups are {', '.join(known)}")
    if not names:
        sys.exit(f"strandline: name a group, as in `make group G=stores`: {', '.join(known)}")
    return list(names), 0


def start_clock(arguments: argparse.Namespace, minutes: int) -> Clock | None:
    """Return CI's time budget, or None outside of CI."""
    if arguments.budget_from is None:
        return None
    recorded = read_record().get(Tier.FIRST.value)
    slowness = measure_slowness(arguments.first_tier, recorded.seconds if recorded else None)
    return Clock(time.monotonic() - arguments.budget_from + minutes * 60, slowness)


def main() -> int:
    """Run the groups and print one summary. Return exit code 1 if a group failed."""
    arguments = parse_arguments()
    names, minutes = choose_names(arguments)
    clock = start_clock(arguments, minutes)
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(1_000_000))
    limit = f" within {minutes} minutes" if minutes else ""
    print(f"groups{limit}: {' '.join(names) or 'none'}; SEED={seed}", flush=True)
    if arguments.dry_run:
        return 0
    runner = Runner(seed, is_recording=arguments.all)
    groups, not_run = read_groups(), []
    for name in names:
        if name == Tier.FIRST.value:
            runner.run_first_tier()
        elif reason := find_reason(groups[name], clock):
            not_run.append((name, reason))
        else:
            runner.run(groups[name])
    return summarize(runner, not_run)


def summarize(runner: Runner, not_run: Sequence[tuple[str, str]]) -> int:
    """Print each group's result and the skipped groups, and return the exit code."""
    for name, result, seconds in runner.results:
        print(f"{result}  {name}  {seconds:.0f} s")
    for name, reason in not_run:
        print(f"not run  {name}  {reason}; run: make group G={name}")
    sys.stdout.flush()
    return int(any(result == "failed" for _, result, _ in runner.results))


if __name__ == "__main__":
    REPORTS.mkdir(parents=True, exist_ok=True)
    sys.exit(main())
