"""A guide for users, parsed into steps: files, commands with their output, and cues.

Commands are in `console` blocks: each line after a `$`, followed by its output. A line `…` matches
any number of lines. Values that differ between runs (ages, times, uids, column widths) are masked.
A cue is a comment that readers do not see: `<!-- cue: RayJob corpus-1 goes on -->`. The module must
not depend on the effect of a command or a cue.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ANY = "…"
BLOCK = re.compile(
    r"^<!-- cue: (?P<cue>.+?) -->$|^```(?P<language>\w+)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
FILE = re.compile(r"# (?P<name>[\w-]+\.(yaml|py))\n")
MASKS = (
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "CLOCK"),
    (re.compile(r"(?<![\w-])(\d+[smhd]){1,2}(?![\w-])"), "AGE"),
    (re.compile(r"[ \t]+"), " "),
)


@dataclass(frozen=True, slots=True)
class File:
    """A file that the reader writes."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Cue:
    """An event on the cluster between two commands."""

    words: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its expected output."""

    line: str
    output: str

    @property
    def is_question(self) -> bool:
        """Return True if the command is read-only, so that the reader may repeat the command."""
        return re.match(r"kubectl (get|describe|events|explain|api-resources) ", self.line) is not (
            None
        ) and not re.search(r" > ", self.line)

    @property
    def waits(self) -> bool:
        """Return True if the command returns only after a change of the cluster."""
        return self.line.startswith(("kubectl wait ", "kubectl delete "))

    def fits(self, printed: str) -> bool:
        """Return True if the printed output equals the guide's output, after masking both."""
        shown, seen = mask(self.output), mask(printed)
        if self.line.startswith("kubectl events"):  # events of the same second have no fixed order
            return sorted(shown) == sorted(seen)
        return is_shown(shown, seen)


def read_guide(text: str) -> Iterator[File | Cue | Command]:
    """Yield the steps of the guide, in order."""
    for found in BLOCK.finditer(text):
        if found["cue"]:
            yield Cue(found["cue"])
        elif found["language"] == "console":
            yield from read_console(found["body"])
        elif found["language"] in {"yaml", "python"} and (file := FILE.match(found["body"])):
            yield File(file["name"], found["body"])


def read_console(body: str) -> Iterator[Command]:
    """Split a block into commands and their outputs."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        yield Command(line, output)


def mask(text: str) -> list[str]:
    """Mask the values that differ between runs, and drop empty lines."""
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def is_shown(shown: Sequence[str], seen: Sequence[str]) -> bool:
    """Return True if the lines match the shown lines, with any lines at `…`."""
    if not shown:
        return not seen
    if shown[0] == ANY:
        return any(is_shown(shown[1:], seen[at:]) for at in range(len(seen) + 1))
    return bool(seen) and shown[0] == seen[0] and is_shown(shown[1:], seen[1:])
