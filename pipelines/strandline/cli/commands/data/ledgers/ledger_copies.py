"""`strandline ledger backup` and `restore`: copies of a ledger, even during a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

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
from strandline.cli.views.format import format_amount, format_bytes
from strandline.ledger.access.ledger_copies import RestoredLedger, restore_ledger
from strandline.ledger.records.entries import SourceState
from strandline.plan.pipeline import PipelinePlan
from strandline.run.manifest.manifest import read_manifest
from strandline.storage.outputs.disk.whole_files import writing_whole

STREAM = "-"
# Number of bytes to read at a time.
_BLOCK = 1 << 20


def _find_copy(path: Path, plan: PipelinePlan) -> Path:
    """Return the file of a pipeline's copy: `NAME.mdb` in a folder, or the file itself."""
    return path / f"{plan.name}.mdb" if path.is_dir() else path


@click.command(
    "backup", epilog=show_examples("strandline ledger backup pipeline.yaml --to ledger.mdb")
)
@take_manifest
@take_volume
@click.option(
    "--to",
    "copy",
    required=True,
    metavar="FILE|FOLDER",
    type=click.Path(path_type=Path, allow_dash=True),
    help="File to write, or an existing folder for NAME.mdb; an existing file is replaced "
    "atomically. `-` is standard output. Several pipelines need a folder.",
)
@partial(each_pipeline, folder="copy")
def back_up(file: Path, settings: tuple[str, ...], volume: Path, copy: Path) -> None:
    """Copy the ledger to one file, also while the pipeline runs.

    The copy is one committed state, in which each source is either finished or not. If the outputs
    and the pipeline's folder `shards` must survive the volume too, copy them afterwards.
    """
    plan = read_manifest(file, settings, volume=volume).plan
    folder, to = locate(plan, volume), _find_copy(copy, plan)
    # Reject this folder, because a copy with the name `data.mdb` would replace the ledger itself.
    if to.absolute().parent.resolve() == folder.ledger.resolve():
        msg = f"{to} is in the ledger's own folder; name a file elsewhere"
        raise click.UsageError(msg)
    with looking(folder) as store:
        if str(to) == STREAM:
            store.copy(sys.stdout.fileno())
            return
        with writing_whole(to.absolute()) as handle:
            store.copy(handle)
    click.echo(f"{to}: {format_bytes(to.stat().st_size)}", err=True)


@click.command(
    "restore", epilog=show_examples("strandline ledger restore pipeline.yaml --from ledger.mdb")
)
@take_manifest
@take_volume
@click.option(
    "--from",
    "copy",
    required=True,
    metavar="FILE|FOLDER",
    type=click.Path(path_type=Path, exists=True, allow_dash=True),
    help="File or folder written by `backup`; `-` is standard input.",
)
@take_json
@partial(each_pipeline, folder="copy")
def restore(file: Path, settings: tuple[str, ...], volume: Path, copy: Path, as_json: bool) -> None:
    """Replace the ledger with a copy.

    The command reads every record of the copy first, and keeps the replaced ledger next to it in
    the folder `ledger-replaced`. Sources that finished after the copy was made are done again. Run
    `repair` next: outputs may have changed since. Refused while the pipeline runs.
    """
    plan = read_manifest(file, settings, volume=volume).plan
    source = _find_copy(copy, plan)
    if str(source) != STREAM and not source.exists():
        msg = f"{source}: there is no copy of this pipeline's ledger"
        raise click.UsageError(msg)
    with click.open_file(str(source), "rb") as content:
        owner = f"{plan.namespace}/{plan.name}"
        restored = restore_ledger(locate(plan, volume), owner, _read_blocks(content))
    if as_json:
        replaced = None if restored.replaced is None else str(restored.replaced)
        facts = {"attempt": restored.attempt, **restored.counts, "replaced": replaced}
        write_line(json.dumps(facts))
    else:
        write_line("\n".join(_describe(restored)))


def _read_blocks(content: IO[bytes]) -> Iterator[bytes]:
    while block := content.read(_BLOCK):
        yield block


def _describe(restored: RestoredLedger) -> list[str]:
    finished = format_amount(restored.counts[SourceState.FINISHED.value], "finished source")
    lines = [f"restored as of attempt {restored.attempt}, with {finished}"]
    if restored.replaced is not None:
        lines.append(f"the replaced ledger is in {restored.replaced}")
    return [*lines, "`strandline repair` finds outputs that have changed since"]
