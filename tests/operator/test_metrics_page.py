"""The page about metrics has a line for each that is served, and for no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from strandline_operator.metrics.numbers import Numbers

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
TABLE = re.compile(r"<!-- table: metrics -->\n(.*?)<!-- end -->", re.DOTALL)
DRIVERS = "## Of a driver"  # what follows is held by the tests of its server


def render_table() -> str:
    registry = Numbers().registry
    rows = ["| metric | type | labels | what it tells |", "| --- | --- | --- | --- |"]
    for metric in sorted(registry.collect(), key=lambda one: one.name):
        collector: Any = registry._names_to_collectors[metric.name]
        labels = ", ".join(f"`{name}`" for name in collector._labelnames)
        rows.append(f"| `{metric.name}` | {metric.type} | {labels} | {metric.documentation} |")
    return "\n".join([*rows, ""])


def test_the_page_has_the_metrics_that_are_served() -> None:
    found = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    assert found[1] == render_table(), f"the table of {PAGE.name} should be:\n{render_table()}"


def test_what_the_page_advises_to_look_at_is_served() -> None:
    text = PAGE.read_text(encoding="utf-8").partition(DRIVERS)[0]
    advised = set(re.findall(r"strandline_[a-z_]+", text.partition("<!-- end -->")[2]))
    served = {
        metric.name + suffix
        for metric in Numbers().registry.collect()
        for suffix in ("", "_total", "_bucket")
    }
    assert len(advised) > 4
    assert advised <= served
