"""Stages that read PDF files. Stages with equal settings share a child process."""

from __future__ import annotations

from typing import Any

from stage_runs import StageRun
from strandline_packs.pdf.page_process import PdfProcess, ReadingSettings

Rows = list[dict[str, Any]]
_CHILDREN: dict[ReadingSettings, PdfProcess] = {}
_ALONE: list[StageRun] = []


def end_children() -> None:
    for child in _CHILDREN.values():
        child.close()
    _CHILDREN.clear()
    for each in _ALONE:
        each.stage.close()
    _ALONE.clear()


def start(**values: Any) -> StageRun:
    """Return a stage with a shared child process, because a child takes time to start."""
    run = StageRun("read-pdf", **{"column": "content"} | values)
    settings = run.stage._settings
    if settings not in _CHILDREN:
        _CHILDREN[settings] = PdfProcess(settings)
    run.stage._process = _CHILDREN[settings]
    return run


def start_alone(**values: Any) -> StageRun:
    """Return a stage that starts its own child process."""
    _ALONE.append(StageRun("read-pdf", **{"column": "content"} | values))
    return _ALONE[-1]


def read(content: bytes, **values: Any) -> Rows:
    return read_with(start(**values), content)


def read_with(stage: StageRun, *contents: bytes) -> Rows:
    rows = [{"key": f"{at}.pdf", "content": each} for at, each in enumerate(contents)]
    return [row for table in stage.tables(rows) for row in table.to_pylist()]
