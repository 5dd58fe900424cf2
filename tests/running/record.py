"""Records test runs: the commit, duration, seed, and result of each group's last run.

`make test-all` writes `tests/record.json`. CI reads durations from it to decide which groups fit
into its time, and `make release-dry` rejects a release whose groups have no recent green run.

    python tests/running/record.py    # exits with 1 if a group has no recent green run
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from groups import list_groups
from tiers import Tier

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "tests" / "record.json"
MOST_COMMITS = 20
UNKNOWN_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Entry:
    """The last run of a group.

    Attributes:
        commit: full hash of the commit. Uncommitted changes make the result `uncommitted`.
        seconds: wall-clock time without builds.
        seed: seed of the group's random examples.
        result: `passed`, `failed`, or `uncommitted` for a green run of a changed tree.
    """

    commit: str
    seconds: float
    seed: int
    result: str


def read_record(path: Path = RECORD) -> dict[str, Entry]:
    """Return the entries by group, or an empty mapping if the file is missing."""
    if not path.is_file():
        return {}
    entries = json.loads(path.read_text(encoding="utf-8"))
    return {name: Entry(**entry) for name, entry in entries.items()}


def write_entry(name: str, entry: Entry, path: Path = RECORD) -> None:
    """Replace the entry of a group."""
    entries = read_record(path) | {name: entry}
    document = {key: asdict(entries[key]) for key in sorted(entries)}
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def find_stale(
    names: Iterable[str], entries: Mapping[str, Entry], count_commits: Callable[[str], int]
) -> list[str]:
    """Yield a sentence for each group without a recent green run.

    Args:
        names: names of all groups.
        count_commits: function that returns the number of commits since a commit, or a negative
            number if HEAD does not descend from it.
    """
    found = []
    for name in names:
        entry = entries.get(name)
        if entry is None:
            found.append(f"{name} has never been recorded")
        elif entry.result != "passed":
            found.append(f"{name} {entry.result} at {entry.commit[:12]}")
        elif (age := count_commits(entry.commit)) < 0:
            found.append(f"{name} passed at {entry.commit[:12]}, which is not in this history")
        elif age > MOST_COMMITS:
            found.append(f"{name} passed {age} commits ago; the limit is {MOST_COMMITS}")
    return found


def count_commits(commit: str) -> int:
    """Return the number of commits since a commit, or -1 if HEAD does not descend from it."""
    words = ["git", "merge-base", "--is-ancestor", commit, "HEAD"]
    if subprocess.run(words, cwd=ROOT, check=False, capture_output=True).returncode:
        return -1
    words = ["git", "rev-list", "--count", f"{commit}..HEAD"]
    return int(subprocess.run(words, cwd=ROOT, check=True, capture_output=True).stdout)


def list_names() -> list[str]:
    """Return the first tier and all groups, in the order of `make test-all`."""
    return [Tier.FIRST.value, *(group.name for group in list_groups([]))]


def main() -> int:
    """Check that every group has a recent green run."""
    if not (stale := find_stale(list_names(), read_record(), count_commits)):
        return 0
    lines = "\n".join(f"  {line}" for line in stale)
    sys.stderr.write(
        "strandline: not every group of tests has a recent green run; run `make test-all`, or "
        f'`make test-all ARGS="GROUP ..."`, and commit tests/record.json:\n{lines}\n'
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
