"""`strandline latest`: prints or chooses the publication that readers should use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.ledger_access import locate
from strandline.cli.app.options import (
    each_pipeline,
    show_examples,
    take_file,
    take_json,
    take_volume,
)
from strandline.cli.app.program import add_debug
from strandline.plan.errors import StrandlineError
from strandline.run.manifest.manifest import read_manifest
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.latest import find_pinned, pin, resolve, unpin
from strandline.storage.volume.published import Publication


class NothingPublishedError(StrandlineError):
    """Raised if the pipeline has no publication."""


@click.command(
    "latest",
    epilog=show_examples(
        "strandline latest pipeline.yaml",
        "strandline latest pipeline.yaml --volume /data --set 0001/p0001",
        "strandline latest pipeline.yaml --unset",
    ),
)
@take_file
@add_debug
@take_volume
@click.option(
    "--set",
    "chosen",
    metavar="NAME",
    help="Choose a publication as `latest`, such as 0003/p0007, until --unset.",
)
@click.option(
    "--unset", is_flag=True, help="Undo --set, so that `latest` is the newest publication."
)
@take_json
@each_pipeline
def latest(file: Path, volume: Path, chosen: str | None, unset: bool, as_json: bool) -> None:
    """Print the folder of the latest publication.

    The command uses the publication chosen with --set, or the target of the link `latest`, or the
    newest complete one. If the pipeline has no publication, the exit code is 1.
    """
    if unset and chosen is not None:
        msg = "--set and --unset are mutually exclusive"
        raise click.UsageError(msg)
    folder = locate(read_manifest(file, (), volume=volume).plan, volume)
    if chosen is not None:
        pin(folder, chosen)
    elif unset:
        unpin(folder)
    published = resolve(folder)
    if published is None:
        msg = f"{folder.path}: nothing is published there yet"
        raise NothingPublishedError(msg)
    write_line(json.dumps(_describe(folder, published)) if as_json else str(published.path))


def _describe(folder: PipelineFolder, published: Publication) -> dict[str, Any]:
    return {
        "latest": str(published.path),
        "attempt": published.attempt,
        "publication": published.number,
        "pinned": find_pinned(folder) == published,
        "facts": dict(published.facts),
    }
