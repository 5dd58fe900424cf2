"""`strandline card`: writes a README about contents and origin of a data set, next to its files."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import click

from strandline.cli.app.ledger_access import locate, locate_output
from strandline.cli.app.options import each_pipeline, show_examples, take_manifest, take_volume
from strandline.cli.card.card import render_card
from strandline.cli.card.naming import choose_license, find_title
from strandline.cli.card.reading import read_card
from strandline.run.manifest.manifest import read_manifest
from strandline.storage.outputs.names import CARD
from strandline.storage.outputs.remote import put_files
from strandline_api.names import LICENSE_ANNOTATION, TITLE_ANNOTATION


@click.command(
    "card",
    epilog=show_examples(
        "strandline card pipeline.yaml --license cc-by-4.0",
        "strandline card pipeline.yaml --out README.md",
    ),
)
@take_manifest
@take_volume
@click.option(
    "--out",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="PAGE",
    help="File to write; `-` for standard output.  [default: README.md beside the sink's files]",
)
@click.option(
    "--license",
    "license_id",
    metavar="ID",
    help="License of the data set, such as cc-by-4.0.  [default: the file's annotation "
    f"{LICENSE_ANNOTATION}]",
)
@click.option(
    "--title",
    help=f"Name of the data set.  [default: the annotation {TITLE_ANNOTATION}, or the pipeline's "
    "name]",
)
@each_pipeline
def card(
    file: Path,
    settings: tuple[str, ...],
    volume: Path,
    out: Path | None,
    license_id: str | None,
    title: str | None,
) -> None:
    """Write the data set's card next to its files.

    The card has source, stages, parameters, kept and dropped rows, statistics, and the run. The
    front matter lists the files that Hugging Face's `datasets` loads. An existing card is replaced.
    """
    manifest = read_manifest(file, settings, volume=volume)
    plan = manifest.plan
    metadata = manifest.pipeline.metadata
    chosen = choose_license(metadata, license_id)
    facts = read_card(
        plan, locate(plan, volume), time.time(), title or find_title(metadata), chosen
    )
    _write(render_card(facts), out, locate_output(plan, volume))
    if chosen is None:
        click.echo("the card names no license; set one with --license", err=True)


def _write(text: str, out: Path | None, output: str) -> None:
    content = text.encode("utf-8", "replace")
    if out is None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / CARD
            path.write_bytes(content)
            put_files(output, {CARD: path})
        click.echo(f"{output}/{CARD}", err=True)
    elif str(out) == "-":
        sys.stdout.buffer.write(content)
    else:
        try:
            out.write_bytes(content)
        except OSError as error:
            msg = f"{out}: can't be written: {error.strerror}"
            raise click.UsageError(msg) from error
        click.echo(str(out), err=True)
