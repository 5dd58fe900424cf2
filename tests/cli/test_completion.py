"""Shell completion of commands, options, and values, which the program itself generates."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BASH = shutil.which("bash")


@pytest.mark.skipif(BASH is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fail"], ["failures"]),
        (["ledger", "st"], ["stats"]),
        (["run", "pipeline.yaml", "--engine", "in"], ["inline"]),
        (["driv"], []),  # hidden from users
    ],
)
def test_bash_completes(words: list[str], expected: list[str]) -> None:
    line = " ".join(["strandline", *words])
    program = (
        'eval "$(_STRANDLINE_COMPLETE=bash_source strandline)"\n'
        f"COMP_WORDS=({line}); COMP_CWORD={len(words)}\n"
        "_strandline_completion strandline\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(BASH), "--norc", "-c", program],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == expected
