"""`strandline ledger quarantine list` and `release`: sources that are no longer tried."""

from __future__ import annotations

import json
from pathlib import Path

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
from strandline.cli.views.format import format_amount
from strandline.cli.views.summary import describe_failure
from strandline.ledger.records.entries import Row, SourceState
from strandline.ledger.store.rows import list_rows
from strandline.run.manifest.manifest import read_manifest
from strandline.run.revise.repair import release_sources

NOTHING = "nothing is quarantined"


@click.group("quarantine")
def quarantine() -> None:
    """List the sources that are no longer tried, and release them."""


@quarantine.command(
    "list", epilog=show_examples("strandline ledger quarantine list pipeline.yaml --json")
)
@take_manifest
@take_volume
@take_json
@each_pipeline
def list_quarantined(file: Path, settings: tuple[str, ...], volume: Path, as_json: bool) -> None:
    """List the sources in quarantine and why.

    The columns are the number of failed attempts, the last of them, and the source's key with
    cause, stage and message. A missing stage means that the source crashed a process.
    """
    with looking(locate(read_manifest(file, settings, volume=volume).plan, volume)) as store:
        is_empty = True
        for row in list_rows(store, SourceState.QUARANTINED):
            is_empty = False
            write_line(json.dumps(row._asdict()) if as_json else _describe(row))
    if is_empty and not as_json:
        click.echo(NOTHING)


@quarantine.command(
    "release", epilog=show_examples("strandline ledger quarantine release pipeline.yaml --all")
)
@take_manifest
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@take_volume
@click.option("--all", "all_of_them", is_flag=True, help="Release all sources in quarantine.")
@take_json
def release(
    file: Path,
    settings: tuple[str, ...],
    keys: tuple[str, ...],
    volume: Path,
    all_of_them: bool,
    as_json: bool,
) -> None:
    """Take sources out of quarantine.

    The next attempt tries them as if they had never failed. KEY is a source's key as shown by
    `list`. Refused while the pipeline runs; if any KEY is not in quarantine, no source is released.
    """
    # Require either keys or --all, so that a forgotten key does not release all sources.
    if bool(keys) == all_of_them:
        msg = (
            "name the keys to release, or use --all"
            if not keys
            else "--all can't be combined with keys"
        )
        raise click.UsageError(msg)
    folder = locate(read_manifest(file, settings, volume=volume).plan, volume)
    released = release_sources(folder, None if all_of_them else keys)
    if as_json:
        write_line(json.dumps({"released": released}))
    elif released:
        click.echo(
            f"{format_amount(len(released), 'source')} released, to be tried by the next run"
        )
    else:
        click.echo(NOTHING)


def _describe(row: Row) -> str:
    return f"{row.times:>4}  {row.attempt:>4}  {describe_failure(row)}"
