"""Writes docs/stage-table.md from what the stages declare, or checks what is there."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from strandline.cli.views.stage_catalogue import (
    describe_removed,
    describe_scope,
    read_columns,
)
from strandline.plan.stages.ends import SinkStage, SourceStage
from strandline.plan.stages.packs import Pack, load_own_packs
from strandline.plan.stages.registry import find_stage
from strandline.plan.stages.stage import Stage

ROOT = Path(__file__).resolve().parents[1]
PAGE = "docs/stage-table.md"
INTRODUCTION = """\
<!-- Made by `make reference` from what the stages declare. Do not edit. -->

# Stages and columns

Columns are those of the default parameters; `COLUMN` is named by a required one.
[Stages](stages.md) says what each stage does, and `strandline stages NAME` shows its parameters.

The column *looks at* names the rows that decide one answer:

- **row**: this row only. Other rows of its task do not change the answer.
- **task**: the rows of one task, such as 10,000 lines of a file. The stage sees no other task.
- **partition**: related rows of the whole corpus, which [an earlier pipeline](duplicates.md) put
  into one task.
- **list**: this row, and a file that an earlier pipeline made from a corpus.
- **corpus**: all tasks together.

A sink writes a file for each task, or one for several with `targetBytes`; a source lists a corpus.
Neither is in the tables. There is a table for each [pack](packs.md).
"""
# Sample parameters of stages for which some are required, since they name columns.
REQUIRED: dict[str, dict[str, Any]] = {
    "ask-model": {"url": "http://localhost/v1", "model": "m", "prompt": "{{ COLUMN }}"},
    "filter-rows": {"function": "builtins:len"},
    "keep-rows": {"where": "COLUMN > 1"},
    "map-rows": {"function": "builtins:len"},
    "map-table": {"function": "builtins:len"},
    "measure-fields": {"columns": ("COLUMN",)},
    "sample-groups": {"group": "COLUMN", "rows": 1},
    "select-columns": {"columns": ("COLUMN",)},
    "show-samples": {"columns": ("COLUMN",)},
}


def list_inner(pack: Pack) -> dict[str, type[Stage]]:
    """Return the stages of a pack, by name, without sources and sinks."""
    stages = {use: find_stage(use) for use in pack.stages}
    return {
        use: found
        for use, found in stages.items()
        if not issubclass(found, SourceStage | SinkStage)
    }


def render_page() -> str:
    """Render the whole page."""
    tables = (_render_pack(name, pack) for name, pack in load_own_packs().items())
    return INTRODUCTION + "".join(tables)


def _render_pack(name: str, pack: Pack) -> str:
    rows = [_render_row(use, found) for use, found in list_inner(pack).items()]
    if not rows:
        return ""
    page = pack.page.removeprefix("docs/")
    head = f"\n## The pack `{name}`\n\nSee [{page}]({page}).\n\n"
    lines = ["| stage | looks at | reads | adds | removes |", "|---|---|---|---|---|", *rows]
    return head + "\n".join(lines) + "\n"


def _render_row(use: str, stage_class: type[Stage]) -> str:
    columns = read_columns(stage_class, REQUIRED.get(use))
    if columns is None:
        raise ValueError(f"{use}: needs sample parameters in {Path(__file__).name}")
    added = [*_format_names(columns.added), *(["what the data has"] if columns.is_open else [])]
    cells = (
        f"`{use}`",
        describe_scope(stage_class),
        ", ".join(_format_names(columns.needed)),
        ", ".join(added),
        describe_removed(columns),
    )
    return f"| {' | '.join(cells)} |"


def _format_names(names: Iterable[str]) -> Iterator[str]:
    return (f"`{name}`" for name in names)


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Write the page, or check it with `--check`; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail where it differs")
    page = root / PAGE
    if not parser.parse_args(arguments).check:
        page.write_text(render_page(), encoding="utf-8")
    elif not page.is_file() or page.read_text(encoding="utf-8") != render_page():
        sys.stderr.write(f"{page.name} is out of date; run: make reference\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
