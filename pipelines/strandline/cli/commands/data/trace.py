"""`strandline trace`: shows the history of one row, from its source to the publication."""

from __future__ import annotations

import json
from pathlib import Path

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.options import show_examples, take_json, take_manifest, take_volume
from strandline.cli.app.targets import list_targets, order_targets
from strandline.cli.views.rows.trace import describe_trace, render_trace
from strandline.run.manifest.manifest import read_manifest
from strandline.run.trace.steps import RowName, TracedRow
from strandline.run.trace.tracer import trace_rows

NOT_FOUND = 2  # exit code; `ExitCode` has the codes of runs


@click.command(
    "trace",
    epilog=show_examples(
        "strandline trace pipeline.yaml --row in/0.txt",
        "strandline trace pipeline.yaml --source in/0.txt --number 0 --json",
    ),
)
@take_manifest
@take_volume
@click.option("--row", "key", metavar="KEY", help="Key of the row.")
@click.option("--source", metavar="KEY", help="Key of the source that has the row.")
@click.option(
    "--number",
    type=click.IntRange(min=0),
    metavar="N",
    help="Index of the row among the rows of --source, from 0, as its first stage yields them.",
)
@click.option(
    "--column",
    default="key",
    show_default=True,
    metavar="NAME",
    help="Column with the keys of rows.",
)
@take_json
def trace(
    file: Path,
    settings: tuple[str, ...],
    volume: Path,
    key: str | None,
    source: str | None,
    number: int | None,
    column: str,
    as_json: bool,
) -> int:
    """Show what each stage did with a row, and where it is.

    The command reads ledger and outputs, and runs the sources of the row once more through the
    stages, in memory. It sends no requests to models: stored answers are used. FILE may have
    several pipelines. If no pipeline has the row, the exit code is 2.
    """
    _check(key, source, number)
    targets = order_targets(list_targets((file,), settings), None)
    others = [target.pipeline for target in targets]
    plans = [
        read_manifest(target.file, settings, volume=volume, others=others).plan
        for target in targets
    ]
    row = TracedRow(RowName(column, {} if key is None else {key: None}, number), source)

    def note(sentence: str) -> None:
        click.echo(sentence, err=True)

    (traces,) = trace_rows(plans, volume, [row], note)
    is_found = any(each.is_found for each in traces)
    if as_json:
        write_line(json.dumps(render_trace(row, traces), ensure_ascii=False))
    elif is_found:
        write_line("\n".join(describe_trace(row, traces)))
    if is_found:
        return 0
    what = f"row {key!r}" if key is not None else f"row {number}" if number is not None else ""
    where = f"source {source!r}" if source is not None else ""
    named = " of ".join(filter(None, (what, where)))
    names = ", ".join(repr(each.pipeline) for each in traces)
    skipped = [f"; {each.key}: {each.message}" for found in traces for each in found.skipped[:1]]
    why = skipped[0] if skipped else f"; keys are read from the column {column!r}"
    click.echo(f"no {named} in {names}{why}", err=True)
    return NOT_FOUND


def _check(key: str | None, source: str | None, number: int | None) -> None:
    if key is None and source is None:
        raise click.UsageError("name the row by --row, or its source by --source")
    if number is not None and (source is None or key is not None):
        raise click.UsageError("--number needs --source, and excludes --row")
