"""`strandline push`: delivers a data set to its readers in one step."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.ledger_access import locate
from strandline.cli.app.options import (
    each_pipeline,
    show_examples,
    take_json,
    take_manifest,
    take_volume,
)
from strandline.cli.card.delivery import write_card
from strandline.cli.card.naming import choose_license, find_title
from strandline.cli.views.format import format_amount
from strandline.run.manifest.manifest import read_manifest
from strandline.run.release.push.pushing import PushClock
from strandline.run.release.push.pushing import push as hand_over


@click.command(
    "push",
    epilog=show_examples(
        "strandline push pipeline.yaml --to published",
        "strandline push pipeline.yaml --to published --license cc-by-4.0 --json",
    ),
)
@take_manifest
@take_volume
@click.option(
    "--to",
    "target",
    required=True,
    metavar="TARGET",
    help="A folder, a URL of a store, hf://datasets/ORG/NAME[@branch], delta:TABLE, "
    "lance:TABLE or iceberg:CATALOG/NAMESPACE.TABLE.",
)
@click.option("--license", "license_id", metavar="ID", help="License for the card; see `card`.")
@click.option("--title", help="Name of the data set for the card; see `card`.")
@click.option(
    "--take-over",
    "takes_over",
    is_flag=True,
    help="Replace a push of this pipeline from a ledger that no longer exists.",
)
@take_json
@each_pipeline
def push(
    file: Path,
    settings: tuple[str, ...],
    volume: Path,
    target: str,
    license_id: str | None,
    title: str | None,
    takes_over: bool,
    as_json: bool,
) -> None:
    """Deliver a complete run's files to their readers.

    Files, card and manifest appear in one step: readers see the whole data set or nothing. Each
    file is compared with the ledger's digest while it is read. If the target already has this data
    set, nothing is done. A killed push continues where it stopped. Refused while the pipeline runs,
    and if its last run is incomplete.
    """
    manifest = read_manifest(file, settings, volume=volume)
    plan, metadata = manifest.plan, manifest.pipeline.metadata
    chosen = choose_license(metadata, license_id)
    folder, clock = locate(plan, volume), PushClock(time.time, time.sleep)
    names = (title or find_title(metadata), chosen)
    card = partial(write_card, plan, folder, clock, *names)
    result = hand_over(plan, folder, target, card, clock, takes_over=takes_over)
    if as_json:
        content = {
            "target": result.target,
            "revision": result.revision,
            "isNew": result.is_new,
            "files": result.files,
        }
        write_line(json.dumps(content))
        return
    what = f"{format_amount(result.files, 'file')} copied" if result.is_new else "already pushed"
    click.echo(f"{result.target}: {what}, revision {result.revision}")
