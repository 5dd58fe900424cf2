"""How wide a line may be where a command writes to. It must not know what is written."""

from __future__ import annotations

import os
import shutil
import sys


def find_width() -> int | None:
    """Return the letters that a line of standard output has room for; None: any number.

    What reads a pipe wants whole lines, unless COLUMNS says otherwise.
    """
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return shutil.get_terminal_size().columns or None
    return None
