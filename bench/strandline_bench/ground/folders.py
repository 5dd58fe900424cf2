"""Where the benchmarks lie, and how processes that they start find them."""

from __future__ import annotations

import os
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2]
ROOT = BENCH.parent
EXAMPLES = ROOT / "pipelines" / "examples"  # makers of what examples work on
CONTROL_PLANE = ROOT / "tests" / "apiserver"  # which tests start too
NODE = ROOT / "e2e"  # what knows how a KubeRay is had


def join_python_path(*folders: Path) -> str:
    """Return a `PYTHONPATH` of the benchmarks, some folders, and what this process was given."""
    others = [str(folder) for folder in folders]
    return os.pathsep.join(filter(None, (str(BENCH), *others, os.environ.get("PYTHONPATH"))))
