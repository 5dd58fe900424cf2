"""Determines the line width of a command's output.

The module must not depend on the content of the output.
"""

from __future__ import annotations

import os
import shutil
import sys


def find_width() -> int | None:
    """Return the number of characters in a line of standard output, or None for unlimited lines.

    Programs that read a pipe expect whole lines, so only COLUMNS limits the width there.
    """
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return shutil.get_terminal_size().columns or None
    return None
