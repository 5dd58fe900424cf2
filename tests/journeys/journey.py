"""A new user's folder: shell commands in it, and the time of the first result.

Uses only public commands and imports. This module must not depend on the product's internals.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from command_server import execute_command

PATIENCE = 300.0
LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Said:
    """The output and exit code of a command."""

    text: str
    code: int


class Journey:
    """The actions of one user in a new folder.

    Args:
        folder: empty.
        variables: environment variables, in addition to this process's.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": "", **(variables or {})}

    def write(self, name: str, text: str) -> Path:
        """Write a file and create its parent folders."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def strandline(self, *words: str) -> Said:
        """Run a command of the product to its end."""
        return self._run([sys.executable, "-m", "strandline", *words])

    def python(self, script: str) -> Said:
        """Run a script of the folder."""
        return self._run([sys.executable, script])

    def time_first_result(self, *words: str, is_there: Callable[[], bool] | None = None) -> Said:
        """Run a command, and print the time until its first output.

        Args:
            is_there: returns whether the output exists; the default looks in the user's folder.
        """
        seen, ended = [], threading.Event()
        look = is_there or self._has_output
        begun = time.monotonic()

        def watch() -> None:
            while not ended.is_set():
                if look():
                    seen.append(time.monotonic() - begun)
                    return
                time.sleep(LOOK_SECONDS)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            said = self.strandline(*words)
        finally:
            ended.set()
            watcher.join()
        first = f"{seen[0]:.1f} s" if seen else "none"
        sys.stdout.write(f"first result of `strandline {' '.join(words)}`: {first}\n")
        return said

    def list_outputs(self) -> list[Path]:
        """Return the output files below the folder."""
        found = self.folder.glob("strandline-data/default/*/output/*/*/*")
        return sorted(path for path in found if path.is_file())

    def _has_output(self) -> bool:
        return bool(self.list_outputs())

    def _run(self, command: list[str]) -> Said:
        process = execute_command(command, cwd=self.folder, env=self.environment, timeout=PATIENCE)
        return Said(process.stdout + process.stderr, process.returncode)


def assert_ends_at_once(said: Said, code: int) -> None:
    """Check that a permanent mistake ends the run at once, without promising another attempt."""
    assert said.code == code, said
    assert not re.search(r"retry (in|\d+ of) ", said.text)
    assert "attempt 2" not in said.text
    assert "Traceback" not in said.text
