"""Builds the section about gathered statistics: panels in frames, and numbers with charts.

This module does no I/O.
"""

from __future__ import annotations

import math

from markupsafe import Markup

from strandline.cli.report.charts import draw_share
from strandline.cli.report.facts import Artifact, Cut
from strandline.cli.report.panels import flatten
from strandline.cli.views.format import format_measure

NUMBERS = 60  # maximum count of displayed numbers of an artifact
# With an empty `sandbox` attribute, the content of the frame can't run code, load or send anything,
# or navigate.
FRAME = """<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:">
<style>:root{color-scheme:light dark}body{margin:8px;font:14px/1.45 system-ui,sans-serif;
overflow-wrap:anywhere}svg,img,table{max-width:100%}</style><body tabindex=0>"""


def list_numbers(
    artifact: Artifact,
) -> tuple[Cut[tuple[str, float]], list[tuple[str, str, Markup | None]]]:
    """Return the first numbers of an artifact, and a row of name, number and chart for each."""
    numbers = flatten(artifact.content, NUMBERS)
    largest: dict[str, float] = {}  # largest number by parent path
    for name, number in numbers.items:
        parent = _name_parent(name)
        largest[parent] = max(largest.get(parent, 0.0), abs(number))
    rows = [
        (name, format_measure(number), _draw(number, largest[_name_parent(name)]))
        for name, number in numbers.items
    ]
    return numbers, rows


def _name_parent(name: str) -> str:
    return name[: max(name.rfind("."), name.rfind("["), 0)]


def _draw(number: float, largest: float) -> Markup | None:
    share = abs(number) / largest if largest else math.nan
    return draw_share(share, format_measure(number)) if math.isfinite(share) else None
