"""`make gather-kills`: kill a run that gathers fifty times, and compare what it gathered.

python tests/runtime/run_gather_kills.py [--kills N] [--seed N]
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from gather_kills import GatherKills


def main() -> int:
    """Carry all kills out on one volume; exit code 1 where anything was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gather-kills-") as folder:
        story = GatherKills(Path(folder)).kill(arguments.seed, arguments.kills)
    for step, times in sorted(Counter(story.fired).items()):
        print(f"{times:4} {step}")
    print(f"{len(story.fired)} kills, {len(story.problems)} problems")
    for problem in story.problems:
        print(f"    {problem}")
    return 1 if story.problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
