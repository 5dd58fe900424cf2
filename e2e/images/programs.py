"""Runs programs until they end. The full output goes to a log; little of it is printed.

This module must not depend on the purpose of the programs.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from images.errors import ImagesError

ADDRESS = re.compile(r"[a-z+]+://[^\s'\"]*|host='[^']*'")
SHOWN = 20


def run_logged(
    command: Sequence[str],
    log: Path,
    *,
    failure: str,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a program and append its output to `log`.

    Raises:
        ImagesError: if the program failed. The message has `failure` and the last lines of the
            output, without index addresses.
    """
    with log.open("ab") as stream:
        code = subprocess.run(
            command, cwd=folder, env=environment, stdout=stream, stderr=stream, check=False
        ).returncode
    if code:
        last = log.read_text(errors="replace").splitlines()[-SHOWN:]
        shown = "\n".join(hide_addresses(line) for line in last)
        raise ImagesError(f"{shown}\n{failure}; all that was said is in {log}")


def read_output(command: Sequence[str], folder: Path | None = None) -> str | None:
    """Return the output of a program, or None if the program is missing or fails."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def hide_addresses(text: str) -> str:
    """Return the text without addresses of package indexes, which may hold passwords."""
    return ADDRESS.sub("<address>", text)
