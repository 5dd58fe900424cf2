"""`make soak-operator`: kill the operator at chosen calls of stories, and write a table.

    python tests/apiserver/run_operator_soak.py [--only TEXT] [--write]

KILLS=100 is the number of schedules, and SEED=... repeats the schedules of an earlier soak. After
MINUTES=20 no other schedule begins.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from api_server import NoApiServerError, open_api_server
from kill_trials import Finding, Ground, Trial
from operator_stories import STORIES
from overlap_watch import OverlapWatch
from troubles import KillPoint

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- operator kills: begin -->", "<!-- operator kills: end -->"
AT_ONCE = 4
MORE_KILLS = (0, 0, 0, 1, 2)  # number of further kills in a story, drawn from these
OF_ALL = 0.2  # share of schedules that also count reads and watches


def main() -> int:
    """Run the soak; return exit code 1 if an end differs from the undisturbed end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="stories that have this in their name")
    parser.add_argument("--write", action="store_true", help=f"keep the table in {REPORT.name}")
    arguments = parser.parse_args()
    count = int(os.environ.get("KILLS", "100"))
    end = time.monotonic() + 60 * float(os.environ.get("MINUTES", "20"))
    seed = os.environ.get("SEED") or str(random.SystemRandom().randrange(10**6))
    print(f"{count} schedules with SEED={seed}", flush=True)
    stories = [name for name in STORIES if arguments.only in name]
    folder = Path(tempfile.mkdtemp(prefix="operator-"))
    try:
        findings = soak(folder, stories, count, seed, end)
    except NoApiServerError as error:
        sys.exit(str(error))
    table = tabulate(findings, seed)
    print(table)
    is_good = not any(finding.faults for finding in findings)
    if arguments.write and is_good and not arguments.only:
        text = REPORT.read_text(encoding="utf-8")
        head, tail = text.split(BEGIN)[0], text.split(END)[1]
        REPORT.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}", encoding="utf-8")
    if not is_good:
        print(f"the operators' logs are in {folder}")
    return 0 if is_good else 1


def soak(folder: Path, stories: Sequence[str], count: int, seed: str, end: float) -> list[Finding]:
    """Run each story undisturbed, then all schedules that begin before the end."""
    home = folder / "control-plane"
    home.mkdir()
    with (
        open_api_server(home, print) as server,
        OverlapWatch(server.kubeconfig) as watch,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        ground = Ground(server, watch, folder)
        trials = [Trial(story, (), story.replace(" ", "-")) for story in stories]
        findings = list(run(ground, pool, trials))
        if any(finding.faults for finding in findings):
            return findings
        ground.peace.update({finding.trial.story: finding for finding in findings})
        drawn = list(draw_trials(ground.peace, count, seed))
        return findings + list(run(ground, pool, drawn, end))


def run(
    ground: Ground, pool: ThreadPoolExecutor, trials: Sequence[Trial], end: float = math.inf
) -> Iterator[Finding]:
    """Run the trials that begin before the end, and print each result."""

    def carry_out(trial: Trial) -> Finding | None:
        return ground.carry_out(trial) if time.monotonic() < end else None

    for finding in pool.map(carry_out, trials):
        if finding is not None:
            say(finding)
            yield finding


def say(finding: Finding) -> None:
    """Print the result of a trial."""
    mark = "BAD" if finding.faults else "ok"
    said = f"{finding.kills} kills, {finding.changes} changes, {finding.calls} calls"
    print(f"{mark} {finding.trial}; {said}, {finding.seconds:.1f} s", flush=True)
    for fault in finding.faults:
        print(f"    {fault}", flush=True)


def draw_trials(peace: dict[str, Finding], count: int, seed: str) -> Iterator[Trial]:
    """Draw schedules for all stories in turn. The first kills cover all calls of a story."""
    drawn = random.Random(seed)
    stories = list(peace)
    rounds = -(-count // len(stories))
    # Use a random order, so that a soak that runs out of time still covers all parts of the
    # stories.
    places = drawn.sample(range(rounds), rounds)
    for number in range(count):
        story, place = stories[number % len(stories)], places[number // len(stories)]
        of_all = drawn.random() < OF_ALL
        calls = peace[story].calls if of_all else peace[story].changes
        first = 1 + int(calls * (place + drawn.random()) / rounds)
        # Further kills are shortly after the first kill, or at the beginning if the story ends
        # earlier.
        more = [1 + (first + drawn.randrange(12)) % calls for _ in range(drawn.choice(MORE_KILLS))]
        points = [
            KillPoint(at, is_late=drawn.random() < 0.5, of_all=of_all)
            for at in sorted({first, *more})
        ]
        yield Trial(story, points, f"{seed}-{number}")


def tabulate(findings: Sequence[Finding], seed: str) -> str:
    """Return the table, with a line per story."""
    cut = [finding for finding in findings if finding.trial.points]
    kills = sum(finding.kills for finding in cut)
    good = sum(not finding.faults for finding in cut)
    lines = [
        f"{len(cut)} schedules with {kills} kills, SEED={seed}; {good} came to the end of peace.",
        "",
        "| story | attempts | changes, calls in peace | schedules | kills | same end |",
        "|---|---|---|---|---|---|",
    ]
    schedules = Counter(finding.trial.story for finding in cut)
    for peace in (finding for finding in findings if not finding.trial.points):
        story = peace.trial.story
        own = [finding for finding in cut if finding.trial.story == story]
        own_good = sum(not finding.faults for finding in own)
        cells = [
            story,
            str(len(STORIES[story].programme)),
            f"{peace.changes}, {peace.calls}",
            str(schedules[story]),
            str(sum(finding.kills for finding in own)),
            f"{own_good} of {len(own)}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
