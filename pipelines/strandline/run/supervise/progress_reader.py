"""Reads the progress that a driver reports in a file.

The file's content may come from another release, so values of a wrong type are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Document = Mapping[str, Any]

LARGEST = 1e18


def read_shown(path: Path, pid: int | None) -> Document | None:
    """Return the latest report of the driver with a pid from a file.

    Return None if there is no report.
    """
    try:
        shown = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return shown if isinstance(shown, dict) and shown.get("pid") == pid else None


def read_number(value: object) -> float:
    """Return a value if it is a number of reasonable size, or else 0."""
    return value if isinstance(value, int | float) and abs(value) < LARGEST else 0.0
