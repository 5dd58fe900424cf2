"""Stateful filters as the runtime runs them: one piece per task, merged in source order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from stage_runs import StageRun
from strandline.plan.stages.stage import StatefulFilter
from strandline.plan.task import Task


class Gathering:
    """Tasks that pass a stateful filter, and the gathered statistics.

    Args:
        folder: folder of pieces and artifacts.
        use, values: the stage and its parameters.
    """

    def __init__(self, folder: Path, use: str, **values: Any) -> None:
        self.folder = folder
        self._use, self._values = use, values
        self.passed: list[pa.Table] = []

    def pieces(self, tables: Sequence[pa.Table]) -> list[Path]:
        """Return one piece per table, made by a single worker."""
        stage = self._create()
        paths = []
        for table in tables:
            answer = stage.process(Task(table))
            assert answer is None or isinstance(answer, Task)
            self.passed += [answer.table] if answer else []
            piece = stage.flush()
            assert stage.flush() is None
            paths.append(self.write(piece or b""))
        return paths

    def merge(self, paths: Sequence[Path]) -> Path:
        """Merge the pieces into one file."""
        out = self.write(b"")
        self._create().merge(paths, out)
        return out

    def artifacts(self, merged: Path) -> list[Path]:
        """Return the artifacts of a merged file."""
        folder = self.folder / f"artifacts-{merged.name}"
        folder.mkdir()
        self._create().artifacts(merged, folder)
        return sorted(folder.iterdir())

    def read(self, merged: Path) -> list[dict[str, Any]]:
        """Return the rows of the JSON artifact."""
        (path,) = [path for path in self.artifacts(merged) if path.suffix == ".json"]
        rows: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["rows"]
        return rows

    def panel(self, artifacts: Sequence[Path]) -> str | None:
        """Return the panel for the report."""
        return self._create().panel(artifacts)

    def write(self, raw: bytes) -> Path:
        path = self.folder / f"{len(list(self.folder.iterdir())):04d}"
        path.write_bytes(raw)
        return path

    def _create(self) -> StatefulFilter:
        stage = StageRun(self._use, **self._values).stage
        assert isinstance(stage, StatefulFilter)
        return stage
