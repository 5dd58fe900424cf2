"""Workers of a local Ray preload the modules of a run, and Ray starts few other processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOOK = """
import psutil
import ray
from strandline.engine.ray.connection import connected


def list_loaded():
    import sys
    return sorted({"wave", "colorsys"} & set(sys.modules))


with connected(None, 1, ["colorsys"]):
    print(ray.get(ray.remote(num_cpus=1)(list_loaded).remote()))
    titles = {child.name() for child in psutil.Process().children(recursive=True)}
    print(sorted(titles & {"ray::RuntimeEnvAgent", "ray::DashboardAgent", "raylet"}))
"""


# Starts its own Ray. In the first tier, tests/engine/test_start_of_ray.py checks its options.
@pytest.mark.more
def test_workers_preload_their_modules_and_no_agent_idles() -> None:
    command = [sys.executable, "-c", LOOK]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['colorsys']", "['ray::RuntimeEnvAgent', 'raylet']"]
