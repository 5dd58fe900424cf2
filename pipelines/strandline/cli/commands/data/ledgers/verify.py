"""`strandline verify`: checks that ledger and outputs agree."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq

from strandline.cli.app.json_output import write_line
from strandline.cli.app.ledger_access import locate, locate_output, looking
from strandline.cli.app.options import (
    each_pipeline,
    repeat_arguments,
    repeat_volume,
    show_examples,
    take_json,
    take_manifest,
    take_volume,
)
from strandline.cli.views.format import escape_text, format_amount, format_bytes, format_count
from strandline.data.files.opening import open_binary
from strandline.data.tables.schemas import describe_column, list_differing, simplify
from strandline.ledger.access.output_location import find_location
from strandline.ledger.checks.verification import VerificationResult, verify
from strandline.ledger.errors import LedgerError
from strandline.ledger.gather.verification import verify_pieces
from strandline.ledger.output_root import OutputRoot, find_move, name_old
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.run.manifest.manifest import read_manifest
from strandline.storage.outputs.names import DESCRIPTIONS
from strandline.storage.outputs.ports import OutputStore
from strandline.storage.outputs.remote import open_outputs
from strandline_api.outcome.exit_codes import ExitCode

PROBLEMS_SHOWN = 20


@click.command(
    "verify",
    epilog=show_examples(
        "strandline verify pipeline.yaml", "strandline verify pipeline.yaml --no-bytes --json"
    ),
)
@take_manifest
@take_volume
@click.option("--no-bytes", is_flag=True, help="Compare sizes only; read no file.")
@take_json
@each_pipeline
def check(
    file: Path,
    settings: tuple[str, ...],
    volume: Path,
    no_bytes: bool,
    as_json: bool,
) -> int:
    """Check that output and ledger agree.

    All files must exist with the written bytes, without extra files or duplicates. The same holds
    for gathered statistics. The command lists all problems, and the exit code is then 65.
    """
    manifest = read_manifest(file, settings, volume=volume)
    verdict, difference = verify_output(manifest.plan, volume, reads_bytes=not no_bytes)
    if as_json:
        content = {"verified": not verdict.problems, **verdict._asdict()}
        content["bytes"] = content.pop("size")
        content["difference"] = difference
        write_line(json.dumps(content))
    else:
        lines = describe_verdict(verdict)
        if verdict.problems:
            arguments = [*repeat_arguments(file, settings), *repeat_volume(volume)]
            words = ["strandline", "repair", *arguments]
            if manifest.is_stored:  # a pod of `kubectl strandline` runs this command
                words = ["kubectl", "strandline", "repair", manifest.plan.name]
            lines.append(f"to reset these sources for the next run: {shlex.join(words)}")
        click.echo("\n".join([*lines, *([f"note: {difference}"] if difference else [])]))
    return ExitCode.LEDGER_MISMATCH if verdict.problems else ExitCode.COMPLETE


def verify_output(
    plan: PipelinePlan, volume: Path, *, reads_bytes: bool
) -> tuple[VerificationResult, str | None]:
    """Compare output and ledger. Return the verdict, and a difference between Parquet files."""
    outputs = open_outputs(locate_output(plan, volume))
    folder = locate(plan, volume)
    with looking(folder) as store:
        location = find_location(plan, folder)
        _refuse_move(store, location)
        verdict = verify(store, outputs, reads_bytes=reads_bytes)
        gathered = verify_pieces(store, folder.shards, reads_bytes=reads_bytes)
    problems = verdict.problems + gathered.problems
    verdict = verdict._replace(problems=problems, pieces=gathered.pieces)
    # Skip this check if files are damaged, because they may be unreadable, and if no file may be
    # opened.
    is_compared = reads_bytes and not problems
    return verdict, find_difference(location.name, outputs) if is_compared else None


def _refuse_move(store: Store, location: OutputRoot) -> None:
    """Reject outputs that were moved to another location, because the ledger can't verify them."""
    if find_move(store, location) is not None:
        msg = (
            f"the outputs of this ledger are at {name_old(store, location)}, but the pipeline "
            f"names {location.name}; if you have moved them, run `strandline ledger move-outputs`"
        )
        raise LedgerError(msg)


def find_difference(location: str, outputs: OutputStore) -> str | None:
    """Return why some readers can't open the Parquet files as one data set, or None if they can.

    The result is only a note: the run has written these files, and differences may be intended.
    """
    first: tuple[str, pa.Schema] | None = None
    names = (name for name, _ in outputs.list_names() if name.endswith(".parquet"))
    for name in sorted(name for name in names if not name.startswith(f"{DESCRIPTIONS}/")):
        with open_binary(f"{location.rstrip('/')}/{name}") as file:
            schema = simplify(pq.read_schema(file))
        first = first or (name, schema)
        column = next(iter(list_differing(first[1], schema)), None)
        if column is not None:
            kinds = " and ".join(
                f"{describe_column(each, column)} in {file_name}"
                for file_name, each in (first, (name, schema))
            )
            advice = "set `schema` of the reader, so that all files can be read as one data set"
            return f"the column {column!r} is {kinds}; {advice}"
    return None


def describe_verdict(verdict: VerificationResult) -> list[str]:
    """Describe the result of a verification as lines, with the first problems only."""
    what = f"{format_amount(verdict.outputs, 'file')}, {format_bytes(verdict.size)}"
    stored = f"{format_amount(verdict.sources, 'finished source')}: {what}"
    if verdict.pieces:
        stored += f"; {format_amount(verdict.pieces, 'gathered piece')}"
    if verdict.dead:
        stored += f"; {format_amount(verdict.dead, 'dead letter')}"
    if verdict.older:
        stored += f"; {format_count(verdict.older)} made with an older recipe"
    if verdict.unfinished:
        stored += f"; {format_amount(verdict.unfinished, 'unfinished source')} not checked"
    if not verdict.problems:
        return [f"verified: {stored}"]
    rest = len(verdict.problems) - PROBLEMS_SHOWN
    return [
        f"not verified, {format_amount(len(verdict.problems), 'problem')} ({stored})",
        *(f"  {escape_text(problem)}" for problem in verdict.problems[:PROBLEMS_SHOWN]),
        *([f"  and {format_count(rest)} more"] if rest > 0 else []),
    ]
