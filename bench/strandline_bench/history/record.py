"""The history of measurements: a line for each update of the document.

The history is derived from the document in each commit, so any clone can rebuild it.
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
    """Measurements at a commit.

    Attributes:
        commit, day: commit and date of the measured code.
        machine: description of the machine.
        versions: versions of compared products, by name.
        ratios: ratios by measured quantity, without those equal to the previous entry.
    """

    commit: str
    day: str
    machine: str
    versions: Mapping[str, str]
    ratios: Mapping[str, float]


def make_entry(commit: str, day: str, text: str) -> Entry:
    """Return an entry with the contents of a document's tables."""
    figures = read_figures(text)
    ratios = {what: figure.number for what, figure in figures.items() if figure.is_ratio}
    machine = _MACHINE.search(text)
    versions = {name: version for what in figures for name, version in _VERSION.findall(what)}
    return Entry(commit, day, machine[1] if machine else "", versions, ratios)


def read_history(file: Path) -> list[Entry]:
    """Return the entries of a history, oldest first; an empty list if the file is missing."""
    if not file.exists():
        return []
    return [Entry(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def write_history(file: Path, entries: Iterable[Entry]) -> None:
    """Replace the history file."""
    lines = (json.dumps(asdict(entry), ensure_ascii=False, sort_keys=True) for entry in entries)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def add_entry(entries: list[Entry], entry: Entry) -> list[Entry]:
    """Add an entry with only its changed ratios. Replace an entry of the same commit."""
    others = [each for each in entries if each.commit != entry.commit]
    before = ChainMap(*(dict(each.ratios) for each in reversed(others)))
    changes = {what: ratio for what, ratio in entry.ratios.items() if before.get(what) != ratio}
    return [*others, replace(entry, ratios=changes)] if changes else others


def list_written(root: Path, documents: Iterable[str]) -> list[Entry]:
    """Return an entry for each commit that changed a ratio in the documents, oldest first.

    Args:
        root: root of the repository.
        documents: current and former paths of the tables.
    """
    paths = list(documents)
    entries: list[Entry] = []
    for line in _ask_git(root, "log", "--reverse", "--format=%h %cs", "--", *paths).splitlines():
        commit, day = line.split()
        entries = add_entry(entries, make_entry(commit, day, _read_all(root, commit, paths)))
    return entries


def describe_commit(root: Path) -> tuple[str, str]:
    """Return the checked-out commit and its date."""
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
        parts.append(shown.stdout.decode())  # empty if the commit lacks the file
    return "\n".join(parts)


def _ask_git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, check=True)  # noqa: S603, S607 - as above
    return done.stdout.decode()
