"""Gives a test its own standard output, because closing pytest's would break pytest."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def own_stdout(path: Path) -> Iterator[None]:
    """Redirect stdout, both the descriptor and the object, to a file. Restore both at the end."""
    kept, text = os.dup(1), sys.stdout
    with path.open("wb") as file:
        os.dup2(file.fileno(), 1)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - closed by those who take it
    try:
        yield
        sys.stdout.close()
    finally:
        sys.stdout = text
        os.dup2(kept, 1)
        os.close(kept)
