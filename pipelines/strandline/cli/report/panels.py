"""Panels for stages with statistics: the stage's own panel, or its artifacts.

A panel comes from the stage's own code and is neither checked nor trusted. The page therefore shows
it in an isolated frame that loads and runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from strandline.cli.report.facts import Artifact, Cut, StageArtifacts
from strandline.engine.call.raised_errors import explain_error
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.stages.stage import StatefulFilter
from strandline.run.release.gatherer import list_artifacts
from strandline.storage.volume.published import Publication

ARTIFACTS = 20
# Limits for a displayed artifact in bytes, and for a panel in characters.
MAX_JSON = 1_000_000
MAX_PANEL = 2_000_000


def read_artifacts(plan: PipelinePlan, published: Publication | None) -> tuple[StageArtifacts, ...]:
    """Return the statistics of each stage that gathers statistics, in pipeline order."""
    return tuple(
        _read_stage(each.name, each.stage, published)
        for each in plan.stages
        if isinstance(each.stage, StatefulFilter)
    )


def _read_stage(name: str, stage: StatefulFilter, published: Publication | None) -> StageArtifacts:
    paths = list_artifacts(published, name) if published else []
    shown = Cut(tuple(map(_read, paths[:ARTIFACTS])), len(paths))
    if not paths:  # the pieces are not merged yet
        return StageArtifacts(name, shown)
    try:
        panel = stage.panel(paths)
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        return StageArtifacts(name, shown, problem=explain_error(error))
    return StageArtifacts(name, shown, panel, _find_fault(panel))


def _find_fault(panel: object) -> str:
    if panel is None:
        return ""
    if not isinstance(panel, str):
        return f"a panel must be text, not {type(panel).__name__}"
    if len(panel) > MAX_PANEL:
        return f"a panel must have at most {MAX_PANEL:,} characters, not {len(panel):,}"
    return ""


def _read(path: Path) -> Artifact:
    try:
        size = path.stat().st_size
        is_shown = path.suffix == ".json" and size <= MAX_JSON
        return Artifact(path.name, size, json.loads(path.read_bytes()) if is_shown else None)
    # Users' stages write these files, so JSON may be invalid, or nested deeper than Python's stack.
    except (OSError, ValueError, RecursionError):
        return Artifact(path.name, 0, None)


def flatten(content: Any, limit: int) -> Cut[tuple[str, float]]:  # noqa: ANN401 - JSON
    """Return the first numbers in a JSON document with their paths, and the total count."""
    count = 0
    kept = []
    for entry in _walk("", content):
        count += 1
        if count <= limit:
            kept.append(entry)
    return Cut(tuple(kept), count)


def _walk(at: str, content: Any) -> Iterator[tuple[str, float]]:  # noqa: ANN401 - JSON
    if isinstance(content, dict):
        for name, value in content.items():
            yield from _walk(f"{at}.{name}" if at else str(name), value)
    elif isinstance(content, list):
        for index, value in enumerate(content):
            yield from _walk(f"{at}[{index}]", value)
    # In Python, `True` is an int.
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield at, content
