"""A copy of the repository, in which the steps of a guide for contributors run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from document_blocks import ROOT, read_blocks
from source_tree import list_files

# Matches the path of a file in the first line of a block.
PATH = re.compile(r"# ([\w./-]+/[\w.-]+)\n")


class RepositoryCopy:
    """A copy of the tracked files, in which programs run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for path in list_files():
            (folder / path.parent).mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, folder / path)
        self.execute("git", "init", "--quiet")
        self.execute("git", "add", "--all")

    def python(self, *words: str) -> str:
        return self.execute(sys.executable, *words)

    def execute(self, *command: str, text: str | None = None) -> str:
        """Run a program that must succeed, and return its output."""
        rooms = os.pathsep.join(
            str(self.folder / room) for room in ("crds", "pipelines", "operator")
        )
        done = subprocess.run(
            command, cwd=self.folder, env=os.environ | {"PYTHONPATH": rooms}, input=text,
            capture_output=True, text=True, check=False, timeout=500,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stdout[-5000:], done.stderr[-3000:])
        return done.stdout

    def list_changed(self) -> set[str]:
        lines = self.execute("git", "status", "--porcelain", "--untracked-files=all").splitlines()
        return {line[3:] for line in lines if not line.startswith("A ")}

    def write_files(self, page: str) -> None:
        """Write the files of a page, and apply its diffs."""
        for block in read_blocks(page):
            if block.language == "diff":
                self.execute("git", "apply", "-", text=block.code)
            elif named := PATH.match(block.code):
                code = block.code[named.end() :]
                (self.folder / named[1]).write_text(code, encoding="utf-8")
