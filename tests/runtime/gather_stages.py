"""Stages that gather statistics: moments, lists of keys, and pieces too large for memory."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import Field

from strandline.plan.stages.stage import Stage, StatefulFilter
from strandline.plan.task import Task

LARGE = 70_000


class LineMoments(StatefulFilter):
    """Gathers the count, mean, and squared deviations of line lengths with Welford's method."""

    class Params(Stage.Params):
        """The size of pieces."""

        padding: int = Field(default=0, description="Bytes by which each piece is made larger.")

    params: Params

    def setup(self) -> None:
        self.state = [0, 0.0, 0.0]

    def process(self, task: Task) -> Task:
        for line in task.table.column("line").to_pylist():
            if line == "raise":
                raise ValueError(line)
            self.state = join(self.state, [1, math.sqrt(len(line)), 0.0])
        return task

    def flush(self) -> bytes | None:
        state, self.state = self.state, [0, 0.0, 0.0]
        if not state[0]:
            return None
        return json.dumps({"state": state, "padding": "x" * self.params.padding}).encode()

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        state: list[Any] = [0, 0.0, 0.0]
        for path in paths:
            state = join(state, json.loads(path.read_text())["state"])
        out.write_text(json.dumps({"state": state}))

    def artifacts(self, merged: Path, folder: Path) -> None:
        count, mean, squares = json.loads(merged.read_text())["state"]
        content = {"count": count, "mean": mean, "variance": squares / count}
        (folder / f"{merged.stem}.json").write_text(json.dumps(content))


class ByteTokens(Stage):
    """Adds `tokens`: the bytes of `content`."""

    def process(self, task: Task) -> Task:
        tokens = [list(content) for content in task.table["content"].to_pylist()]
        column = pa.array(tokens, pa.list_(pa.int32()))
        return task.replace(task.table.append_column("tokens", column))


class KeyList(StatefulFilter):
    """Lists the key and row count of every task. The list shows the order of merged pieces."""

    def process_batch(self, tasks: list[Task]) -> list[Any]:
        self.lines = [f"{task.key}\t{task.num_rows}\n" for task in tasks]
        return list(tasks)

    def flush(self) -> bytes | None:
        lines, self.lines = getattr(self, "lines", []), []
        return "".join(lines).encode() or None

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        out.write_bytes(b"".join(path.read_bytes() for path in paths))


def join(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """Return two states merged into one."""
    count = left[0] + right[0]
    if not count:
        return [0, 0.0, 0.0]
    apart = right[1] - left[1]
    mean = left[1] + apart * right[0] / count
    return [count, mean, left[2] + right[2] + apart * apart * left[0] * right[0] / count]
