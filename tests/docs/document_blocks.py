"""Reads the code blocks of README and docs, and runs their commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from command_server import execute_command

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    "README.md",
    "docs/audio.md",
    "docs/stages.md",
    "docs/dead-letters.md",
    "docs/stateful.md",
    "docs/partitions.md",
    "docs/python.md",
    "docs/outputs.md",
    "docs/publishing.md",
    "docs/shuffling.md",
    "docs/running.md",
    "docs/statistics.md",
    "docs/duplicates.md",
    "docs/video.md",
    "docs/pdf.md",
    "docs/text.md",
    "docs/text-filters.md",
    "docs/text-scores.md",
    "docs/changing.md",
    "docs/diff.md",
    "docs/trace.md",
]
# Ends a command line that reports a difference by its exit code.
DIFFERENT = "# exit code 1: they differ"
COMMENT = re.compile(r"(^|\s)#.*")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    code: str

    @property
    def file(self) -> str | None:
        """Name of the file in the block's first line."""
        first = self.code.partition("\n")[0]
        name = first.removeprefix("# ")
        return name if first.startswith("# ") and re.fullmatch(r"\w+\.\w+", name) else None


def read_blocks(document: str) -> list[Block]:
    return [Block(*found) for found in FENCE.findall((ROOT / document).read_text())]


def run_in(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder. Python and `strandline` run as forks, other programs directly."""
    scripts = Path(sys.executable).parent
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    settings: dict[str, Any] = {
        "cwd": folder,
        "env": {**os.environ, "PATH": path, "PYTHONPATH": str(folder)},
        "timeout": 300,
    }
    if command[0] in {sys.executable, "python"}:
        return execute_command([sys.executable, *command[1:]], **settings)
    if command[0] == "strandline":
        return execute_command([scripts / "strandline", *command[1:]], **settings)
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)


def write_files(document: str, folder: Path) -> None:
    for block in read_blocks(document):
        if block.file:
            (folder / block.file).write_text(block.code)
