"""A local Ray of our own has its workers import ahead what a run will need."""

from __future__ import annotations

import subprocess
import sys

LOOK = """
import ray
from strandline.engine.ray.connection import connected


def list_loaded():
    import sys
    return sorted({"wave", "colorsys"} & set(sys.modules))


with connected(None, 1, ["colorsys"]):
    print(ray.get(ray.remote(num_cpus=1)(list_loaded).remote()))
"""


def test_workers_have_imported_what_they_will_need_before_they_are_asked() -> None:
    command = [sys.executable, "-c", LOOK]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout, done.returncode) == ("['colorsys']\n", 0), done.stderr
