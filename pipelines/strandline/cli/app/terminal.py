"""The line width of a command's output. The module must not depend on the content of the output."""

from __future__ import annotations

import os
import shutil
import sys


def find_width() -> int | None:
    """Return the characters in a line of standard output, or None for unlimited lines.

    Readers of a pipe expect whole lines, unless COLUMNS sets a width.
    """
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return shutil.get_terminal_size().columns or None
    return None
