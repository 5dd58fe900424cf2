"""The operator on a machine whose clock is off, by as many seconds as a file says at any moment.

    python skewed_operator.py FILE --namespaces team

The clock that only runs is left alone, as it is where somebody sets the other one.
"""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path


def main() -> None:
    """Set the clock, then be the operator."""
    offset, true_time = Path(sys.argv.pop(1)), time.time
    time.time = lambda: true_time() + float(offset.read_text(encoding="utf-8"))
    runpy.run_module("strandline_operator", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
