"""What the pipeline says: its stages with all parameters, and their fingerprint. Pure."""

from __future__ import annotations

import json
import shlex

from strandline.cli.report.facts import RunFacts, StageDefinition
from strandline.cli.report.markup import Markup, element
from strandline.cli.report.tables import Cell, make_note, make_section, make_table

_COLUMNS = ("stage", "use", "with")


def make_definition(facts: RunFacts) -> Markup:
    """Return the stages as the file defines them, and what they come to."""
    if not facts.definition:
        return make_section("pipeline", "Pipeline", make_note("Its file was not read."))
    rows = [_make_row(stage) for stage in facts.definition]
    command = shlex.join(["strandline", "describe", *facts.file])
    return make_section(
        "pipeline",
        "Pipeline",
        element("p", "Fingerprint ", element("code", facts.fingerprint)),
        make_table("Stages, in order", _COLUMNS, rows),
        make_note("As a file: ", element("code", command)),
    )


def _make_row(stage: StageDefinition) -> tuple[Cell, ...]:
    params = [
        element("li", element("code", f"{name}: {json.dumps(value, ensure_ascii=False)}"))
        for name, value in stage.params.items()
    ]
    listed = element("ul", *params, class_="params") if params else ""
    return (stage.name, element("code", stage.use), (listed, "words"))
