"""Folders of the benchmarks, and the Python path of subprocesses."""

from __future__ import annotations

import os
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2]
ROOT = BENCH.parent
EXAMPLES = ROOT / "pipelines" / "examples"  # has the generators of the examples' inputs
CONTROL_PLANE = ROOT / "tests" / "apiserver"  # has the API server that tests also start
NODE = ROOT / "e2e"  # has the code that finds a KubeRay checkout


def join_python_path(*folders: Path) -> str:
    """Return a `PYTHONPATH` with the benchmarks, the given folders, and this process's own path."""
    others = [str(folder) for folder in folders]
    return os.pathsep.join(filter(None, (str(BENCH), *others, os.environ.get("PYTHONPATH"))))
