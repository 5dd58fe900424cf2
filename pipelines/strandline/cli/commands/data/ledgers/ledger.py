"""`strandline ledger stats`, `sources`, and `export`: states of sources, with reasons of failures.

These commands only read. Commands that change or copy the ledger are in other modules.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.ledger_access import locate, looking
from strandline.cli.app.options import (
    each_pipeline,
    show_examples,
    take_json,
    take_manifest,
    take_volume,
)
from strandline.cli.app.terminal import find_width
from strandline.cli.commands.data.ledgers.ledger_copies import back_up, restore
from strandline.cli.commands.data.ledgers.outputs import move_outputs, own_outputs
from strandline.cli.commands.data.ledgers.quarantine import quarantine
from strandline.cli.views.format import (
    align,
    format_amount,
    format_bytes,
    format_count,
)
from strandline.cli.views.ledger_export import write_jsonl, write_metrics, write_parquet
from strandline.cli.views.summary import describe_failure
from strandline.ledger.checks.counts import count_finished, count_sources
from strandline.ledger.records.entries import Row, SourceState
from strandline.ledger.store.rows import list_efforts, list_rows
from strandline.ledger.store.store import Store
from strandline.run.manifest.manifest import read_manifest

COUNTED_AT_MOST = 100_000  # with more finished sources, counting takes over a second

take_state = click.option(
    "--state",
    type=click.Choice([state.value for state in SourceState]),
    help="Only sources in this state.",
)


@click.group("ledger")
def ledger() -> None:
    """Inspect a ledger, and repair it."""


ledger.add_command(quarantine)
ledger.add_command(move_outputs)
ledger.add_command(own_outputs)
ledger.add_command(back_up)
ledger.add_command(restore)


@ledger.command("stats", epilog=show_examples("strandline ledger stats pipeline.yaml --json"))
@take_manifest
@take_volume
@take_json
@each_pipeline
def stats(file: Path, settings: tuple[str, ...], volume: Path, as_json: bool) -> None:
    """Count the sources; show the last attempt and the size."""
    folder = locate(read_manifest(file, settings, volume=volume).plan, volume)
    with looking(folder) as store:
        lease = store.read_meta("lease") or {"attempt": 0, "ended": True}
        facts: dict[str, Any] = {
            "ledger": str(folder.ledger),
            "pipeline": store.read_meta("pipeline"),
            "run": store.read_meta("run"),
            "attempt": lease["attempt"],
            "ended": lease["ended"],
            "listed": store.read_meta("listed"),
            **count_sources(store),
            **_count_output(store),
            # LMDB's file may be sparse, so count allocated blocks. `st_blocks` always counts units
            # of 512 bytes.
            "bytes": (folder.ledger / "data.mdb").stat().st_blocks * 512,
        }
    if as_json:
        write_line(json.dumps(facts))
        return
    ended = "" if facts["ended"] else ", still running or ended without a report"
    listed = facts["listed"]
    rows = [
        ("ledger", facts["ledger"]),
        ("pipeline", f"{facts['pipeline']}, run {facts['run']}"),
        ("last attempt", f"{facts['attempt']}{ended}"),
        ("last full listing", "none" if listed is None else format_amount(listed, "source")),
        *((state.value, format_count(facts[state])) for state in SourceState),
        *_describe_output(facts),
        ("size", format_bytes(facts["bytes"])),
    ]
    click.echo("\n".join(align(rows, 2, find_width())))


def _count_output(store: Store) -> dict[str, int | None]:
    """Count files and rows of finished sources. Return None for a large ledger, to save time."""
    if store.count()["finished"] > COUNTED_AT_MOST:
        return {"files": None, "rows": None, "deadLetters": None}
    counts = count_finished(store)
    data = counts.data
    return {"files": data.files, "rows": data.rows, "deadLetters": counts.dead.total}


def _describe_output(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if facts["files"] is not None:
        rows, files = format_amount(facts["rows"], "row"), format_amount(facts["files"], "file")
        yield "output", f"{rows} in {files}"
        yield "dead letters", format_count(facts["deadLetters"])


@ledger.command(
    "sources",
    epilog=show_examples("strandline ledger sources pipeline.yaml --state failed --limit 20"),
)
@take_manifest
@take_volume
@take_state
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="Maximum number of sources to show.  [default: all]",
)
@take_json
@each_pipeline
def sources(
    file: Path,
    settings: tuple[str, ...],
    volume: Path,
    state: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """List the sources.

    The columns are state, attempt, files written, key, and the reason of a failure.
    """
    with looking(locate(read_manifest(file, settings, volume=volume).plan, volume)) as store:
        rows = list_rows(store, SourceState(state) if state else None)
        for row in islice(rows, limit):
            text = json.dumps(row._asdict()) if as_json else _describe(row)
            write_line(text)


@ledger.command(
    "export",
    epilog=show_examples(
        "strandline ledger export pipeline.yaml --to ledger.parquet",
        "strandline ledger export pipeline.yaml --state failed",
        "strandline ledger export pipeline.yaml --metrics metrics.parquet",
    ),
)
@take_manifest
@take_volume
@take_state
@click.option("--to", type=click.Path(path_type=Path), help="File.  [default: standard output]")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "parquet"]),
    help="[default: parquet for a name that ends in .parquet, else jsonl]",
)
@click.option(
    "--metrics",
    type=click.Path(path_type=Path),
    help="Write metrics of each stage and finished source to this Parquet file instead; "
    "needs `checkpoint.sourceMetrics: true` in the pipeline.",
)
def export(
    file: Path,
    settings: tuple[str, ...],
    volume: Path,
    state: str | None,
    to: Path | None,
    form: str | None,
    metrics: Path | None,
) -> None:
    """Write every source with its outputs as JSON Lines or Parquet."""
    if metrics is not None and (state or to or form):
        raise click.UsageError("--metrics can't be combined with --state, --to or --format")
    is_parquet = form == "parquet" or (form is None and to is not None and to.suffix == ".parquet")
    write = write_parquet if is_parquet else write_jsonl
    with looking(locate(read_manifest(file, settings, volume=volume).plan, volume)) as store:
        if metrics is not None:
            count = _write_file(metrics, partial(write_metrics, list_efforts(store)))
            click.echo(f"{format_amount(count, 'row')} written to {metrics}", err=True)
            return
        rows = list_rows(store, SourceState(state) if state else None)
        if to is None:
            write(rows, sys.stdout.buffer)
            return
        count = _write_file(to, partial(write, rows))
    click.echo(f"{format_amount(count, 'source')} written to {to}", err=True)


def _write_file(path: Path, write: Callable[[BinaryIO], int]) -> int:
    try:
        with path.open("wb") as target:
            return write(target)
    except OSError as error:
        msg = f"{path}: can't be written: {error.strerror}"
        raise click.UsageError(msg) from error


def _describe(row: Row) -> str:
    return f"{row.state:11}  {row.attempt:>4}  {len(row.outputs):>4}  {describe_failure(row)}"
