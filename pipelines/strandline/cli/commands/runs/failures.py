"""`strandline failures`: why sources failed, a line for each reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.ledger_access import looking
from strandline.cli.app.options import show_examples, take_json, take_manifest, take_volume
from strandline.cli.views.failures import describe_failures, render_failure_group
from strandline.cli.views.format import format_amount
from strandline.ledger.store.rows import list_failures
from strandline.run.attempt.failures import FailureGroup, group_failures
from strandline.run.manifest.yaml_file import read_pipeline
from strandline.storage.layout import PipelineFolder


@click.command(
    "failures",
    epilog=show_examples(
        "strandline failures pipeline.yaml", "strandline failures pipeline.yaml --json"
    ),
)
@take_manifest
@take_volume
@take_json
def failures(file: Path, settings: tuple[str, ...], volume: Path, as_json: bool) -> None:
    """Show why sources failed, by stage, error and line of code.

    Each reason has the number of its sources and one of them as an example. A source that was
    finished since has failed no more.
    """
    metadata = read_pipeline(file, settings).pipeline.metadata
    with looking(PipelineFolder.of(volume, metadata.namespace, metadata.name)) as store:
        groups = group_failures(list_failures(store))
        counts = store.count()
    if as_json:
        for group in groups:
            write_line(json.dumps(render_failure_group(group)))
        return
    for line in _describe(groups, counts["failed"], counts["quarantined"]):
        click.echo(line)


def _describe(groups: tuple[FailureGroup, ...], failed: int, quarantined: int) -> Iterator[str]:
    if failed:
        yield from describe_failures(groups, failed, most=len(groups))
        yield "each of them: `strandline ledger sources FILE --state failed`"
    else:
        yield "no source has failed"
    if quarantined:
        amount = format_amount(quarantined, "source")
        yield f"{amount} quarantined: `strandline ledger quarantine list FILE`"
