"""`strandline dropped`: counts rows marked for dropping, by reason, and shows examples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.ledger_access import locate, locate_output, looking
from strandline.cli.app.options import (
    each_pipeline,
    show_examples,
    take_json,
    take_manifest,
    take_volume,
)
from strandline.cli.views.format import format_count
from strandline.ledger.store.rows import list_output_names
from strandline.plan.pipeline import PipelinePlan
from strandline.run.manifest.manifest import read_manifest
from strandline.run.revise.marks.dropped_rows import MarkedRows, find_reason_columns, gather_marked

_EXAMPLES = 20
NOTHING_KEPT = (
    "no stage keeps dropped rows. With `reasonColumn: why`, a stage keeps these rows in the "
    "output, each with its reason: run a trial with it and `--volume trial`, and pass that volume "
    "here"
)


@click.command(
    "dropped",
    epilog=show_examples(
        "strandline dropped pipeline.yaml", "strandline dropped pipeline.yaml --examples 3"
    ),
)
@take_manifest
@take_volume
@click.option(
    "--examples",
    type=click.IntRange(min=0),
    default=_EXAMPLES,
    show_default=True,
    metavar="N",
    help="Number of example rows to show for each reason.",
)
@take_json
@each_pipeline
def dropped(
    file: Path, settings: tuple[str, ...], volume: Path, examples: int, as_json: bool
) -> None:
    """Count the rows that stages marked, and show some.

    Stages with the parameter `reasonColumn` mark rows and keep them. The command reads all outputs
    of finished sources; the examples depend only on the rows' keys.
    """
    plan = read_manifest(file, settings, volume=volume).plan
    columns = find_reason_columns(plan)
    if not columns and not as_json:
        write_line(NOTHING_KEPT)
        return
    found = read_dropped(plan, volume, examples)
    if as_json:
        write_line(json.dumps(render_dropped(found), ensure_ascii=False))
        return
    write_line("\n".join(_describe(found)) or f"no row has a reason in {', '.join(columns)}")


def read_dropped(plan: PipelinePlan, volume: Path, examples: int) -> Mapping[str, MarkedRows]:
    """Return the rows that stages marked, by reason, with some examples."""
    with looking(locate(plan, volume)) as store:
        names = list_output_names(store)
    columns = find_reason_columns(plan)
    return gather_marked(locate_output(plan, volume), names, columns, examples)


def render_dropped(found: Mapping[str, MarkedRows]) -> list[dict[str, object]]:
    """Return an object for each reason, as with `--json`."""
    return [
        {
            "reason": reason,
            "count": rows.count,
            "examples": [each._asdict() for each in rows.examples],
        }
        for reason, rows in found.items()
    ]


def _describe(found: Mapping[str, MarkedRows]) -> Iterator[str]:
    for reason, rows in found.items():
        yield f"{reason}: {format_count(rows.count)} rows"
        for each in rows.examples:
            yield f"  {each.key}  {each.text}".rstrip()
