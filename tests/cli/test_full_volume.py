"""A full volume is reported as the cause, whichever program filled the volume."""

from __future__ import annotations

import json

from cli_project import Call, Project
from command_server import execute_strandline
from mounts import mounted_small

# A stage that fills the volume with another file, like a growing log.
FILL = """
def process(self, task):
    try:
        with open("small/filling", "ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    except OSError:
        return task
"""


def test_a_full_volume_is_named_by_all_commands(project: Project, call: Call) -> None:
    project.add_stage(FILL)
    with mounted_small(project.path / "small", 3 << 20):
        command = ["run", "pipeline.yaml", "--engine", "inline", "--volume", "small"]
        ended = execute_strandline(*command, cwd=project.path)
        assert ended.returncode == 73
        assert "no space is left on the volume" in ended.stderr

        listed = call("attempts", "pipeline.yaml", "--volume", "small", "--json")
        (attempt,) = map(json.loads, listed.stdout.splitlines())
        report = call("report", "pipeline.yaml", "--volume", "small", "--out", "-")

        assert attempt["cause"] == "VolumeUnusable"
        assert "VolumeUnusable" in report.stdout
