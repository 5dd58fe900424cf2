"""A user cuts long recordings into clips, with a custom stage and a GPU on another machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from journey import Journey, assert_ends_at_once

STAGES = '''
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from strandline import Stage, Task

FRAME = 64


class Cut(Stage):
    """Yields clips of a recording, which is a file of grey frames."""

    class Params(Stage.Params):
        frames: int = 10

    params: Params

    def process(self, task: Task) -> Iterator[Task]:
        for row in task.table.to_pylist():
            frames = np.frombuffer(row["content"], np.uint8).reshape(-1, FRAME)
            for at in range(0, len(frames), self.params.frames):
                yield Task({"key": f"{row['key']}#{at}", "clip": frames[at : at + 10]})


class DropDark(Stage):
    """Drops clips that are black."""

    def process(self, task: Task) -> Task | None:
        if task.data["clip"].mean() < 8:
            self.count("dropped: dark")
            return None
        row = {"key": task.data["key"], "brightness": float(task.data["clip"].mean())}
        return Task(pa.Table.from_pylist([row]))


class Caption(DropDark):
    """Needs what is not installed."""

    packages = ("a_model_that_nobody_has",)
'''
PIPELINE = """
apiVersion: strandline.dev/v1alpha1
kind: CurationPipeline
metadata: {{name: clips}}
spec:
  source: {{use: files, with: {{paths: ["videos/*.raw"]}}}}
  stages:
    - use: read-files
    - use: clips:Cut
    - {last}
  sink: {{use: jsonl}}
"""


@pytest.fixture
def user(tmp_path: Path) -> Journey:
    journey = Journey(tmp_path)
    journey.write("clips.py", STAGES)
    (tmp_path / "videos").mkdir()
    for number in range(3):
        frames = bytes([0]) * 64 * 10 + bytes([100 + number]) * 64 * 25
        (tmp_path / f"videos/{number}.raw").write_bytes(frames)
    return journey


def test_recordings_become_clips_and_dark_ones_are_counted(user: Journey) -> None:
    user.write("pipeline.yaml", PIPELINE.format(last="use: clips:DropDark"))
    said = user.time_first_result("run", "pipeline.yaml")
    assert said.code == 0, said
    assert len(user.list_outputs()) == 9  # 25 bright frames become three clips
    assert "dropped: dark" in said.text


def test_a_missing_package_is_reported_at_once(user: Journey) -> None:
    user.write("pipeline.yaml", PIPELINE.format(last="use: clips:Caption"))
    assert_ends_at_once(user.strandline("run", "pipeline.yaml"), 64)


def test_a_missing_gpu_is_reported_at_once(user: Journey) -> None:
    last = "{use: clips:DropDark, resources: {gpu: 0.5}}"
    user.write("pipeline.yaml", PIPELINE.format(last=last))
    said = user.strandline("run", "pipeline.yaml")
    assert_ends_at_once(said, 64)
    assert "requests 0.5 GPU" in said.text


def test_a_broken_recording_affects_no_other(user: Journey) -> None:
    (user.folder / "videos/1.raw").write_bytes(b"broken")
    user.write("pipeline.yaml", PIPELINE.format(last="use: clips:DropDark"))
    said = user.strandline("run", "pipeline.yaml", "--engine", "inline")
    assert_ends_at_once(said, 3)
    assert len(user.list_outputs()) == 6
    assert "cannot reshape" in user.strandline("ledger", "sources", "pipeline.yaml").text
