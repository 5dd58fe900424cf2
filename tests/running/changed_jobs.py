"""Which jobs of GitHub's a change asks for, by the paths that it touches.

What no rule names asks for all of them, so a new folder is never left untested.

python tests/running/changed_jobs.py [BASE]    # prints `job=true` or `job=false`, a line each
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
JOBS = ("pages", "pure", "lowest", "runtime", "server", "chart", "node", "wheel")
EVERY = frozenset(JOBS)
# The first that a path begins with counts. Lint is for every change, so it is not named.
RULES: tuple[tuple[str, frozenset[str]], ...] = (
    ("docs/pictures/", frozenset()),
    ("docs/", frozenset({"pages"})),
    ("changelog.d/", frozenset({"pages"})),
    ("mkdocs.yml", frozenset({"pages"})),
    ("charts/", frozenset({"pages", "chart", "node"})),
    ("operator/", EVERY - {"runtime"}),
    ("pipelines/", EVERY - {"chart"}),
    ("bench/", frozenset({"runtime"})),
    ("e2e/", frozenset({"server", "chart", "node"})),
    ("tests/durations.json", frozenset()),
    ("tests/fixtures/", EVERY),
    ("tests/golden/", EVERY),
)
# The tests that are a job's, by the Makefile's name of their group.
JOBS_OF_GROUPS = {
    "pages": {"pages"},
    "pure": {"pure", "lowest"},
    "runtime": {"runtime"},
    "server": {"server"},
    "chart": {"chart"},
    "shape": set[str](),  # with lint
}
GROUP = re.compile(r"^TESTS_([a-z]+) := \$\(addprefix tests/,([a-z_ ]+)\)$", re.MULTILINE)


def read_groups() -> dict[str, list[str]]:
    """The Makefile's groups of tests: the folders of each below `tests`."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return {name: folders.split() for name, folders in GROUP.findall(text)}


def choose_jobs(
    paths: Iterable[str], groups: Mapping[str, list[str]], readers: Mapping[str, set[str]]
) -> set[str]:
    """Return the jobs that a change asks for.

    Args:
        paths: that it touches, from the root.
        groups: the folders of tests, by group.
        readers: the folders of tests that name a page, by its file's name.
    """
    jobs: set[str] = set()
    for path in paths:
        jobs |= _choose(path, groups)
        for folder in readers.get(Path(path).name, ()):
            jobs |= _choose(f"tests/{folder}/", groups)
    return jobs


def _choose(path: str, groups: Mapping[str, list[str]]) -> frozenset[str] | set[str]:
    for beginning, jobs in RULES:
        if path.startswith(beginning):
            return jobs
    if "/" not in path and path.endswith(".md"):
        return {"pages"}
    first, _, rest = path.partition("/")
    folder, has_more, _ = rest.partition("/")
    if first == "tests" and has_more:
        for group, folders in groups.items():
            if folder in folders:
                return JOBS_OF_GROUPS[group]
    return EVERY


def find_readers(paths: Iterable[str]) -> dict[str, set[str]]:
    """Return which folders of tests name each page among some paths."""
    names = {Path(path).name for path in paths if path.endswith(".md")}
    readers: dict[str, set[str]] = {}
    for file in (ROOT / "tests").rglob("*.py") if names else ():
        text = file.read_text(encoding="utf-8")
        for name in names:
            if name in text:
                readers.setdefault(name, set()).add(file.relative_to(ROOT / "tests").parts[0])
    return readers


def list_changed(base: str) -> list[str]:
    """Return the paths that differ from where a branch began, both names of what was moved."""
    words = ["git", "diff", "--name-only", "--no-renames", "-z", f"{base}...HEAD"]
    output = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for path in output.split("\0") if path]


def main() -> int:
    """Print the jobs; without a base all of them are asked for."""
    wanted: set[str] | frozenset[str] = EVERY
    if base := "".join(sys.argv[1:]):
        paths = list_changed(base)
        wanted = choose_jobs(paths, read_groups(), find_readers(paths))
    print("\n".join(f"{job}={str(job in wanted).lower()}" for job in JOBS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
