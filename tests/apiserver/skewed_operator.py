"""Runs the operator with a wrong clock. A file has the current offset in seconds.

    python skewed_operator.py FILE --namespaces team

The monotonic clock is unchanged, as on a machine whose wall clock is set.
"""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path


def main() -> None:
    """Shift the clock, then run the operator."""
    offset, true_time = Path(sys.argv.pop(1)), time.time
    time.time = lambda: true_time() + float(offset.read_text(encoding="utf-8"))
    runpy.run_module("strandline_operator", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
