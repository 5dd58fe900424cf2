"""Standard output as a shell gives it, and not pytest's, which takes offence when it is closed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def own_stdout(path: Path) -> Iterator[None]:
    """Have it go to a file, descriptor and object; undone in the end."""
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
