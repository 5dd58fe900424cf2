"""The history of what was measured: a line for each time that the document was written.

It is made from the document as it stood in each commit, so that a clone can make it anew.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from strandline_bench.history.figures import read_figures

_MACHINE = re.compile(r"^(\d+ cores, \d+ GB of memory)\.$", re.MULTILINE)
_VERSION = re.compile(r"\b([A-Za-z][A-Za-z-]+) (\d+\.\d+\.\d+)\b")


@dataclass(frozen=True, slots=True)
class Entry:
    """What was measured at a commit.

    Attributes:
        commit, day: of what was measured.
        machine: in words.
        versions: of what it was compared with, by name.
        ratios: by what was measured; those that were the same before are left out.
    """

    commit: str
    day: str
    machine: str
    versions: Mapping[str, str]
    ratios: Mapping[str, float]


def make_entry(commit: str, day: str, text: str) -> Entry:
    """Return what a document with tables says."""
    figures = read_figures(text)
    ratios = {what: figure.number for what, figure in figures.items() if figure.is_ratio}
    machine = _MACHINE.search(text)
    versions = {name: version for what in figures for name, version in _VERSION.findall(what)}
    return Entry(commit, day, machine[1] if machine else "", versions, ratios)


def read_history(file: Path) -> list[Entry]:
    """Return the entries of a history, oldest first; none where there is no file."""
    if not file.exists():
        return []
    return [Entry(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def write_history(file: Path, entries: Iterable[Entry]) -> None:
    """Replace a history."""
    lines = (json.dumps(asdict(entry), ensure_ascii=False, sort_keys=True) for entry in entries)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def add_entry(entries: list[Entry], entry: Entry) -> list[Entry]:
    """Return the entries with what has changed in one more; it replaces another of its commit."""
    others = [each for each in entries if each.commit != entry.commit]
    before = ChainMap(*(dict(each.ratios) for each in reversed(others)))
    changes = {what: ratio for what, ratio in entry.ratios.items() if before.get(what) != ratio}
    return [*others, replace(entry, ratios=changes)] if changes else others


def list_written(root: Path, documents: Iterable[str]) -> list[Entry]:
    """Return what the documents said in each commit that has changed a ratio in them, oldest first.

    Args:
        root: of the repository.
        documents: paths in it at which the tables have stood.
    """
    paths = list(documents)
    entries: list[Entry] = []
    for line in _ask_git(root, "log", "--reverse", "--format=%h %cs", "--", *paths).splitlines():
        commit, day = line.split()
        entries = add_entry(entries, make_entry(commit, day, _read_all(root, commit, paths)))
    return entries


def describe_commit(root: Path) -> tuple[str, str]:
    """Return the commit that is checked out, and its day."""
    commit, day = _ask_git(root, "log", "-1", "--format=%h %cs").split()
    return commit, day


def _read_all(root: Path, commit: str, paths: Iterable[str]) -> str:
    parts = []
    for path in paths:
        shown = subprocess.run(  # noqa: S603 - git, and paths of our own
            ["git", "show", f"{commit}:{path}"],  # noqa: S607 - the one on the path
            cwd=root,
            capture_output=True,
            check=False,
        )
        parts.append(shown.stdout.decode())  # empty where it was not there
    return "\n".join(parts)


def _ask_git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, check=True)  # noqa: S603, S607 - as above
    return done.stdout.decode()
