"""Folders of the benchmarks, and the Python path of processes that they start."""

from __future__ import annotations

import os
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2]
ROOT = BENCH.parent
EXAMPLES = ROOT / "pipelines" / "examples"  # with generators of the examples' inputs
CONTROL_PLANE = ROOT / "tests" / "apiserver"  # also started by tests
NODE = ROOT / "e2e"  # with the code that finds a KubeRay


def join_python_path(*folders: Path) -> str:
    """Return a `PYTHONPATH` of the benchmarks, the given folders, and this process's own path."""
    others = [str(folder) for folder in folders]
    return os.pathsep.join(filter(None, (str(BENCH), *others, os.environ.get("PYTHONPATH"))))
