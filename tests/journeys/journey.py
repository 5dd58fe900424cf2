"""A new user's folder: commands of a shell in it, and when the first result was there.

Only public commands and imports are used. It must not know what is inside the product.
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
    """All that a command has printed, and its exit code."""

    text: str
    code: int


class Journey:
    """What one user does in a folder of their own.

    Args:
        folder: empty.
        variables: of the environment, on top of this process's.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": "", **(variables or {})}

    def write(self, name: str, text: str) -> Path:
        """Write a file, and the folders above it."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def strandline(self, *words: str) -> Said:
        """Run a command of the product to its end."""
        return self._run([sys.executable, "-m", "strandline", *words])

    def python(self, script: str) -> Said:
        """Run a script that lies in the folder."""
        return self._run([sys.executable, script])

    def time_first_result(self, *words: str, is_there: Callable[[], bool] | None = None) -> Said:
        """Run a command, and print after how long its first output was there.

        Args:
            is_there: whether it is; by default, whether the user's folder has an output.
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
        """List the files that sinks have written below the folder."""
        found = self.folder.glob("strandline-data/default/*/output/*/*/*")
        return sorted(path for path in found if path.is_file())

    def _has_output(self) -> bool:
        return bool(self.list_outputs())

    def _run(self, command: list[str]) -> Said:
        process = execute_command(command, cwd=self.folder, env=self.environment, timeout=PATIENCE)
        return Said(process.stdout + process.stderr, process.returncode)


def assert_ends_at_once(said: Said, code: int) -> None:
    """Hold a permanent mistake against what its user is told: one end, and no other to wait for."""
    assert said.code == code, said
    assert not re.search(r"retry (in|\d+ of) ", said.text)
    assert "attempt 2" not in said.text
    assert "Traceback" not in said.text
