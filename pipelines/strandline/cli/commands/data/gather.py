"""`strandline gather`: merges gathered statistics now, and publishes the results."""

from __future__ import annotations

import json
import time
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
from strandline.cli.views.format import format_amount
from strandline.ledger.access.lease import OnChange
from strandline.run.manifest.manifest import read_manifest
from strandline.run.release.gatherer import gather_by_hand

# Reason recorded for the unchecked publication, because only a run checks the requirements.
_BY_HAND = "gathered by hand; only a run checks `publish.require`"


@click.command("gather", epilog=show_examples("strandline gather pipeline.yaml"))
@take_manifest
@take_volume
@take_json
@each_pipeline
def gather(file: Path, settings: tuple[str, ...], volume: Path, as_json: bool) -> None:
    """Merge gathered statistics and publish the results.

    A run does this by itself; use this command after a run was killed before it could. Refused
    while the pipeline runs. Without new statistics, nothing is published. Prints the folder of the
    latest publication.
    """
    manifest = read_manifest(file, settings, volume=volume)
    spec = manifest.pipeline.spec
    done = gather_by_hand(
        manifest.plan,
        locate(manifest.plan, volume),
        OnChange(spec.on_change),
        spec.checkpoint.keep_last,
        time.time,
        withheld=(_BY_HAND,) if spec.publish else (),
    )
    if as_json:
        latest = str(done.latest) if done.latest else None
        content = {"pieces": done.pieces, "published": done.is_new, "latest": latest}
        write_line(json.dumps(content))
    elif not done.pieces:
        click.echo("no stage has gathered anything")
    else:
        for stage, pieces in done.pieces.items():
            click.echo(f"{stage}: {format_amount(pieces, 'piece')}")
        click.echo(done.latest)
