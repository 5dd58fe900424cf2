"""What stages with statistics want to show: their own panel, else their artifacts as they are.

A panel is made by the stage's own code and is neither checked nor trusted here; the page shuts it
into a frame where nothing runs and nothing is fetched.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from strandline.cli.report.facts import Artifact, Cut, StageArtifacts
from strandline.engine.execution import explain_error
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.stage import Stage
from strandline.storage.published import Publication

FOLDER = "artifacts"
ARTIFACTS = 20
MAX_JSON = 1_000_000
MAX_PANEL = 2_000_000
MakePanel = Callable[[Sequence[Path]], str | None]


def read_artifacts(plan: PipelinePlan, published: Publication | None) -> tuple[StageArtifacts, ...]:
    """What each stage that keeps statistics has to show, in pipeline order."""
    found = []
    for each in plan.stages:
        make = find_panel(each.stage)
        if make is not None:
            found.append(_read_stage(each.name, make, published))
    return tuple(found)


def find_panel(stage: Stage) -> MakePanel | None:
    """What makes a stage's panel; None for a stage that keeps no statistics."""
    make = getattr(stage, "panel", None)
    return make if callable(make) else None


def _read_stage(name: str, make: MakePanel, published: Publication | None) -> StageArtifacts:
    place = published.path / FOLDER / name if published else None
    paths = _list_files(place) if place else []
    shown = Cut(tuple(_read(place, path) for path in paths[:ARTIFACTS] if place), len(paths))
    if not paths:  # nothing is gathered yet
        return StageArtifacts(name, shown)
    try:
        panel = make(paths)
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        return StageArtifacts(name, shown, problem=explain_error(error))
    return StageArtifacts(name, shown, panel, _find_fault(panel))


def _find_fault(panel: object) -> str:
    if panel is None:
        return ""
    if not isinstance(panel, str):
        return f"it is no text, but {type(panel).__name__}"
    return f"it has {len(panel):,} characters" if len(panel) > MAX_PANEL else ""


def _list_files(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob("*") if path.is_file())


def _read(place: Path, path: Path) -> Artifact:
    name = path.relative_to(place).as_posix()
    try:
        size = path.stat().st_size
        is_shown = path.suffix == ".json" and size <= MAX_JSON
        return Artifact(name, size, json.loads(path.read_bytes()) if is_shown else None)
    except (OSError, ValueError, RecursionError):
        return Artifact(name, 0, None)


def flatten(content: Any, limit: int) -> Cut[tuple[str, float]]:  # noqa: ANN401 - JSON
    """The numbers in a JSON document, each with where it is, and how many there are."""
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
        for place, value in enumerate(content):
            yield from _walk(f"{at}[{place}]", value)
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield at, content
