"""A guide for users, read as a list of things to do: files, commands with what they print, cues.

Commands stand in blocks of `console`, each after a `$`, followed by its output. A line `…` stands
for any number of lines. What differs from run to run (ages, times, uids, the width of columns) is
masked. A cue is a comment that readers don't see: `<!-- cue: RayJob corpus-1 goes on -->`. This
room must not know what a command or a cue does.
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
    """What happens meanwhile on the cluster."""

    words: str


@dataclass(frozen=True, slots=True)
class Command:
    """What the reader types and sees."""

    line: str
    output: str

    @property
    def is_question(self) -> bool:
        """Whether it changes nothing, so that it may be asked until the answer is there."""
        return re.match(r"kubectl (get|describe|events|explain|api-resources) ", self.line) is not (
            None
        ) and not re.search(r" > ", self.line)

    @property
    def waits(self) -> bool:
        """Whether it does not end before something else has happened."""
        return self.line.startswith(("kubectl wait ", "kubectl delete "))

    def fits(self, printed: str) -> bool:
        """Whether this is what the guide shows, whatever is masked."""
        shown, seen = mask(self.output), mask(printed)
        if self.line.startswith("kubectl events"):  # those of one second come in any order
            return sorted(shown) == sorted(seen)
        return is_shown(shown, seen)


def read_guide(text: str) -> Iterator[File | Cue | Command]:
    """List what the guide has its reader do, in order."""
    for found in BLOCK.finditer(text):
        if found["cue"]:
            yield Cue(found["cue"])
        elif found["language"] == "console":
            yield from read_console(found["body"])
        elif found["language"] in {"yaml", "python"} and (file := FILE.match(found["body"])):
            yield File(file["name"], found["body"])


def read_console(body: str) -> Iterator[Command]:
    """Part a block into commands and their outputs."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        yield Command(line, output)


def mask(text: str) -> list[str]:
    """Take out of each line what differs from run to run; empty lines don't count."""
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def is_shown(shown: Sequence[str], seen: Sequence[str]) -> bool:
    """Whether the lines are those that are shown, with anything where `…` stands."""
    if not shown:
        return not seen
    if shown[0] == ANY:
        return any(is_shown(shown[1:], seen[at:]) for at in range(len(seen) + 1))
    return bool(seen) and shown[0] == seen[0] and is_shown(shown[1:], seen[1:])
