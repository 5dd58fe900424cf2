"""`strandline card`: what is in a data set and how it came about, beside its files."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

import click

from strandline.cli.app.ledger_access import locate, locate_output
from strandline.cli.app.options import show_examples, take_manifest, take_volume
from strandline.cli.card.card import render_card
from strandline.cli.card.reading import read_card
from strandline.run.manifest.manifest import Manifest, read_manifest
from strandline.storage.outputs.names import CARD
from strandline.storage.outputs.remote import put_files
from strandline_api.names import LICENSE_ANNOTATION, TITLE_ANNOTATION

_LICENSE = re.compile(r"[a-z0-9][a-z0-9.+-]*")


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
    help="License of the data set, such as cc-by-4.0.  "
    f"[default: what the file's annotation {LICENSE_ANNOTATION} says]",
)
@click.option(
    "--title",
    help="Name of the data set.  "
    f"[default: what the annotation {TITLE_ANNOTATION} says, or the pipeline's name]",
)
def card(
    file: Path,
    settings: tuple[str, ...],
    volume: Path,
    out: Path | None,
    license_id: str | None,
    title: str | None,
) -> None:
    """Write the data set's card beside its files.

    Source, stages and parameters, what was kept and dropped, statistics, and whose run it was. Its
    head tells Hugging Face's `datasets` which files to load. A card that is there is replaced.
    """
    manifest = read_manifest(file, settings, volume=volume)
    plan = manifest.plan
    chosen = choose_license(manifest, license_id)
    facts = read_card(
        plan, locate(plan, volume), time.time(), title or find_title(manifest), chosen
    )
    _write(render_card(facts), out, locate_output(plan, volume))
    if chosen is None:
        click.echo("the card names no license; --license does", err=True)


def choose_license(manifest: Manifest, value: str | None) -> str | None:
    """Return the identifier of the license that is asked for, or that the pipeline names.

    Raises:
        UsageError: it is no identifier.
    """
    named = value or manifest.pipeline.metadata.annotations.get(LICENSE_ANNOTATION)
    if named is None:
        return None
    if not _LICENSE.fullmatch(named.lower()):
        msg = f"{named!r} is no identifier of a license; one is such as cc-by-4.0"
        raise click.UsageError(msg)
    return named.lower()


def find_title(manifest: Manifest) -> str:
    """Return the data set's name for people."""
    metadata = manifest.pipeline.metadata
    plain = metadata.name.replace("-", " ").capitalize()
    return metadata.annotations.get(TITLE_ANNOTATION) or plain


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
