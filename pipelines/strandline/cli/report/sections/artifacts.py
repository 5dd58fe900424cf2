"""Statistics that stages have gathered: their own panels, shut in, or numbers as a table. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from strandline.cli.report.charts import draw_share
from strandline.cli.report.facts import Artifact, RunFacts, StageArtifacts
from strandline.cli.report.markup import Markup, element
from strandline.cli.report.panels import flatten
from strandline.cli.report.tables import describe_more, make_note, make_section, make_table
from strandline.cli.views.format import format_bytes, format_measure

NUMBERS = 60  # most of one artifact
# A frame's content must not run, be fetched, be sent or lead away: `sandbox` allows nothing.
_FRAME = """<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<style>:root{color-scheme:light dark}body{margin:8px;font:14px/1.45 system-ui,sans-serif;
overflow-wrap:anywhere}svg,img,table{max-width:100%}</style><body tabindex=0>"""


def make_artifacts(facts: RunFacts) -> Markup:
    """Return a piece for each stage that keeps statistics."""
    if not facts.artifacts:
        note = make_note("No stage of this pipeline keeps statistics.")
        return make_section("artifacts", "Statistics", note)
    pieces = [piece for each in facts.artifacts for piece in _make_stage(each)]
    return make_section("artifacts", "Statistics", *pieces)


def _make_stage(stage: StageArtifacts) -> Iterator[Markup | None]:
    yield element("h3", stage.stage)
    if not stage.artifacts.count:
        yield make_note(
            "Nothing of it is published yet: run on, or see ",
            element("code", "strandline gather"),
            ".",
        )
        return
    if stage.problem:
        yield make_note(f"Its panel can't be shown: {stage.problem}")
    if stage.panel is not None and not stage.problem:
        yield frame_panel(stage.stage, stage.panel)
    else:
        for artifact in stage.artifacts.items:
            yield _make_numbers(artifact)
    yield _list_files(stage)


def frame_panel(stage: str, panel: str) -> Markup:
    """Put a stage's own HTML into a frame in which nothing runs; arrow keys scroll it."""
    title = f"Panel of {stage}"
    return element("iframe", title=title, sandbox="", srcdoc=_FRAME + panel)


def _make_numbers(artifact: Artifact) -> Markup | None:
    numbers = flatten(artifact.content, NUMBERS)
    if not numbers.count:
        return None
    largest: dict[str, float] = {}  # by those that stand beside each other
    for name, number in numbers.items:
        beside = _name_parent(name)
        largest[beside] = max(largest.get(beside, 0.0), abs(number))
    rows = [
        (name, format_measure(number), _draw(number, largest[_name_parent(name)]))
        for name, number in numbers.items
    ]
    columns = ("name", "#number", "share of the largest beside it")
    table = make_table(f"Numbers of {artifact.name}", columns, rows)
    return element("div", table, describe_more(numbers.more))


def _name_parent(name: str) -> str:
    return name[: max(name.rfind("."), name.rfind("["), 0)]


def _draw(number: float, largest: float) -> Markup | None:
    share = abs(number) / largest if largest else math.nan
    return draw_share(share, format_measure(number)) if math.isfinite(share) else None


def _list_files(stage: StageArtifacts) -> Markup:
    rows = [(artifact.name, format_bytes(artifact.size)) for artifact in stage.artifacts.items]
    return element(
        "details",
        element("summary", f"Artifacts of {stage.stage}"),
        make_table(f"Artifacts of {stage.stage}", ("file", "#size"), rows),
        describe_more(stage.artifacts.more),
    )
