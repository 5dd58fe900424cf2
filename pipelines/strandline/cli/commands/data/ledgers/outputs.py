"""`strandline ledger move-outputs` and `own-outputs`: location and owner of outputs.

`move-outputs` checks the files at the new location; `own-outputs` takes a location over without a
check.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.ledger_access import locate, locate_output
from strandline.cli.app.options import (
    each_pipeline,
    show_examples,
    take_json,
    take_manifest,
    take_volume,
)
from strandline.cli.commands.data.ledgers.verify import describe_verdict
from strandline.run.manifest.manifest import read_manifest
from strandline.run.release.moving import MoveResult, seize_outputs
from strandline.run.release.moving import move_outputs as move
from strandline_api.outcome.exit_codes import ExitCode


@click.command(
    "move-outputs",
    epilog=show_examples(
        "strandline ledger move-outputs pipeline.yaml",
        "strandline ledger move-outputs pipeline.yaml --no-bytes",
    ),
)
@take_manifest
@take_volume
@click.option("--no-bytes", is_flag=True, help="Compare sizes only; read no file.")
@take_json
@each_pipeline
def move_outputs(
    file: Path, settings: tuple[str, ...], volume: Path, no_bytes: bool, as_json: bool
) -> int:
    """Record in the ledger that you have moved the outputs.

    Move or copy the files first, and set the new location in FILE. The command checks the files as
    `verify` does; if they are complete, the next run continues there. Otherwise the ledger stays
    unchanged, and the exit code is 65. Refused while the pipeline runs, and if FILE has other
    changes.
    """
    plan = read_manifest(file, settings, volume=volume).plan
    moved = move(plan, locate(plan, volume), reads_bytes=not no_bytes)
    is_moved = not moved.verdict.problems
    if as_json:
        content = {"moved": is_moved, "from": moved.old, "to": moved.new}
        write_line(json.dumps(content | {"problems": moved.verdict.problems}))
    else:
        write_line("\n".join(_describe(moved)))
    return ExitCode.COMPLETE if is_moved else ExitCode.LEDGER_MISMATCH


@click.command("own-outputs", epilog=show_examples("strandline ledger own-outputs pipeline.yaml"))
@take_manifest
@take_volume
@take_json
def own_outputs(file: Path, settings: tuple[str, ...], volume: Path, as_json: bool) -> None:
    """Take over the location of the outputs from another ledger.

    Use it if a lost ledger wrote outputs there, and this ledger was started to replace it. If the
    lost ledger ran again, it would be refused. Existing files are overwritten source by source.
    Refused while the pipeline runs.
    """
    plan = read_manifest(file, settings, volume=volume).plan
    location = locate_output(plan, volume)
    former = seize_outputs(plan, locate(plan, volume))
    if as_json:
        content = None if former is None else former._asdict()
        write_line(json.dumps({"place": location, "former": content}))
    else:
        write_line(f"{location} is this ledger's" + (f", no longer {former}'s" if former else ""))


def _describe(moved: MoveResult) -> list[str]:
    lines = describe_verdict(moved.verdict)
    if moved.verdict.problems:
        return [*lines, f"the ledger is unchanged; its outputs are at {moved.old}"]
    where = "" if moved.old in {None, moved.new} else f", no longer at {moved.old}"
    return [*lines, f"the outputs are at {moved.new}{where}"]
