"""Selects the second tier's groups by the paths that a change touches.

There are no other rules: `.ci/run`, `make test-more`, and the GitHub workflows all call this
module. A path without a rule selects every group, so a new folder is never left untested.

    python tests/running/changed_jobs.py [BASE]    # prints `groups=[...]` for GitHub
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from groups import ENGINE_FOLDERS, Group, list_groups
from tiers import FOLDERS_OF_MORE, Tier

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
RUNTIME = frozenset({"commands", "engines", "stores", "bench", "wheel"})
CLUSTER = frozenset({"server", "chart", "gitops", "node"})
EVERY = RUNTIME | CLUSTER | {"workflow"}
NONE: frozenset[str] = frozenset()
# Path prefixes with their groups. The first matching prefix counts. The first tier runs for every
# change, so no rule names it.
RULES: tuple[tuple[str, frozenset[str]], ...] = (
    ("docs/", NONE),
    ("changelog.d/", NONE),
    ("mkdocs.yml", NONE),
    ("charts/", frozenset({"chart", "gitops", "node"})),
    ("operator/", CLUSTER),
    ("pipelines/strandline/cli/", frozenset({"commands", "wheel"})),
    ("pipelines/strandline/engine/", frozenset({"engines", "commands", "bench"})),
    ("pipelines/strandline/storage/", frozenset({"stores", "commands", "engines"})),
    ("pipelines/", RUNTIME),
    ("bench/", frozenset({"bench"})),
    ("e2e/s3/", frozenset({"stores", "node"})),
    ("e2e/gcs/", frozenset({"stores"})),
    ("e2e/azure/", frozenset({"stores"})),
    ("e2e/gitops/", frozenset({"gitops"})),
    ("e2e/actionlint/", frozenset({"workflow"})),
    ("e2e/helm/", frozenset({"chart", "node"})),
    ("e2e/cluster/", frozenset({"server", "chart", "node"})),
    ("e2e/", frozenset({"node"})),
    ("Dockerfile", frozenset({"node"})),
    (".github/workflows/", frozenset({"workflow"})),
    ("tests/durations.json", NONE),
    ("tests/record.json", NONE),
    ("tests/fixtures/", EVERY),
    ("tests/golden/", EVERY),
    ("tests/running/", EVERY),
    ("tests/support/", EVERY),
)
# The group that runs a folder's tests of the second tier.
GROUPS_OF_FOLDERS: Mapping[str, str] = {
    **dict.fromkeys(ENGINE_FOLDERS, "engines"),
    **{folder: folder for folder in FOLDERS_OF_MORE},
    "apiserver": "server",
}
ORDER = [group.name for group in list_groups([])]
MINUTES, MINUTES_OF_ONE_SIDE = 45, 25
# A change whose code is on only one of these sides has the shorter budget.
SIDES = (("pipelines/",), ("operator/", "charts/"))
BESIDE_CODE = ("docs/", "changelog.d/", "tests/")
HOURS = 4  # assumed duration of a change if only the history shows its beginning


def choose_groups(paths: Iterable[str], readers: Mapping[str, set[str]]) -> list[str]:
    """Return the names of the groups that a change selects, the most relevant first.

    The more paths select a group, the more relevant it is. Equally relevant groups have the order
    of `list_groups`.

    Args:
        paths: paths that the change touches, relative to the root.
        readers: folders of tests that name a page, by the page's file name.
    """
    votes: Counter[str] = Counter()
    for path in paths:
        votes.update(_match(path))
        # The remaining readers of a page are in the first tier, which runs for every change.
        for folder in readers.get(Path(path).name, set()) & FOLDERS_OF_MORE:
            votes[GROUPS_OF_FOLDERS[folder]] += 1
    return sorted(votes, key=lambda name: (-votes[name], ORDER.index(name)))


def choose_budget(paths: Iterable[str]) -> int:
    """Return the total minutes that `.ci/run` may take, including the first tier."""
    code = [path for path in paths if not path.startswith(BESIDE_CODE)]
    is_one_side = any(all(path.startswith(side) for path in code) for side in SIDES)
    return MINUTES_OF_ONE_SIDE if is_one_side else MINUTES


def _match(path: str) -> frozenset[str]:
    for prefix, names in RULES:
        if path.startswith(prefix):
            return names
    if "/" not in path and path.endswith(".md"):
        return NONE
    first, _, rest = path.partition("/")
    folder, has_more, _ = rest.partition("/")
    if first == "tests" and has_more:
        # A test of the first tier needs no group, but its folder may contain tests of the second
        # tier.
        return frozenset({GROUPS_OF_FOLDERS.get(folder, "commands")})
    return EVERY


def find_readers(paths: Iterable[str]) -> dict[str, set[str]]:
    """Return the folders of tests that name a changed page, by the page's file name."""
    names = {Path(path).name for path in paths if path.endswith(".md")}
    readers: dict[str, set[str]] = {}
    for file in TESTS.rglob("*.py") if names else ():
        text = file.read_text(encoding="utf-8")
        for name in names:
            if name in text:
                readers.setdefault(name, set()).add(file.relative_to(TESTS).parts[0])
    return readers


def find_base(given: str) -> str:
    """Return the commit at which a change begins, or an empty text for the whole history.

    By default, the change begins where the branch left the remote's main branch. In a clone without
    other branches, it begins at the last commit that is `HOURS` older than the newest one.
    """
    if given:
        return given
    head = _run_git("rev-parse", "HEAD")
    remote = _run_git("merge-base", "HEAD", "origin/main")
    if remote and remote != head:
        return remote
    newest = int(_run_git("log", "-1", "--format=%ct") or 0)
    return _run_git("rev-list", "-1", f"--before={newest - HOURS * 3600}", "HEAD")


def list_changed(base: str) -> list[str]:
    """Return the paths that differ from a commit, including both names of each moved file.

    Uncommitted changes and new files also count.
    """
    known = _run_git("diff", "--name-only", "--no-renames", "-z", base)
    new = _run_git("ls-files", "--others", "--exclude-standard", "-z")
    return sorted({path for path in (known + "\0" + new).split("\0") if path})


def read_groups() -> dict[str, Group]:
    """Return all groups by name."""
    folders = sorted({path.parent.name for path in TESTS.glob("*/test_*.py")})
    return {group.name: group for group in list_groups(folders)}


def choose_for_change(given: str) -> tuple[list[str], int]:
    """Return the groups that the change since a commit selects, and CI's budget in minutes."""
    base = find_base(given)
    if not base:
        return sorted(EVERY, key=ORDER.index), MINUTES
    paths = list_changed(base)
    return choose_groups(paths, find_readers(paths)), choose_budget(paths)


def _run_git(*words: str) -> str:
    command = ["git", *words]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def main() -> int:
    """Print the selected groups as outputs of a GitHub step. If there is no base, select all."""
    base = "".join(sys.argv[1:])
    chosen = choose_for_change(base)[0] if base else sorted(EVERY, key=ORDER.index)
    full = [group.name for group in read_groups().values() if group.tier is Tier.FULL]
    # The groups `node` and `wheel` have separate GitHub jobs: on a cluster, and on several Python
    # versions.
    print(f"groups={json.dumps([name for name in chosen if name not in {'node', 'wheel'}])}")
    print(f"node={json.dumps('node' in chosen)}")
    print(f"wheel={json.dumps('wheel' in chosen)}")
    print(f"full={json.dumps(full)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
