"""`strandline report`: writes a run as one HTML page."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from strandline.cli.app.ledger_access import locate
from strandline.cli.app.options import (
    repeat_arguments,
    repeat_volume,
    show_examples,
    take_manifests,
    take_volume,
)
from strandline.cli.app.targets import list_targets, order_targets
from strandline.cli.report.facts import RunFacts
from strandline.cli.report.page import render_page
from strandline.cli.report.reading import read_facts
from strandline.cli.views.format import format_bytes
from strandline.run.manifest.manifest import read_manifest
from strandline_api.objects.pipeline import CurationPipeline


@click.command(
    "report",
    epilog=show_examples(
        "strandline report pipeline.yaml",
        "strandline report pipeline.yaml --volume /data --out run.html",
    ),
)
@take_manifests
@take_volume
@click.option(
    "--out",
    type=click.Path(path_type=Path, allow_dash=True),
    default="report.html",
    show_default=True,
    metavar="PAGE",
    help="File to write; `-` for standard output.",
)
def report(files: tuple[Path, ...], settings: tuple[str, ...], volume: Path, out: Path) -> None:
    """Write an HTML page that shows the run of FILES.

    The page has attempts with their causes, sources by state, throughput of each stage, failures,
    statistics, and the latest publication. It is one file that needs no network, and can be written
    during a run. Several pipelines share one page, in the order in which they run; successful ones
    are collapsed.
    """
    # Ignore the results on the volume, because a report is useful even if earlier pipelines are
    # incomplete.
    targets = order_targets(list_targets(files, settings), None)
    others = [target.pipeline for target in targets]
    runs = [_read_run(target.file, settings, volume, others) for target in targets]
    page = render_page(*runs)
    # File names that are not UTF-8 contain lone surrogates, which UTF-8 can't encode.
    content = page.encode("utf-8", "replace")
    if str(out) == "-":
        sys.stdout.buffer.write(content)
        return
    try:
        out.write_bytes(content)
    except OSError as error:
        msg = f"{out}: can't be written: {error.strerror}"
        raise click.UsageError(msg) from error
    click.echo(f"{out}: {format_bytes(len(content))}", err=True)


def _read_run(
    file: Path, settings: tuple[str, ...], volume: Path, others: Sequence[CurationPipeline]
) -> RunFacts:
    plan = read_manifest(file, settings, volume=volume, others=others).plan
    named, where = repeat_arguments(file, settings), repeat_volume(volume)
    return read_facts(plan, locate(plan, volume), time.time(), named, where)
