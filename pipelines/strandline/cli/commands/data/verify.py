"""`strandline verify`: the proof that ledger and output agree."""

from __future__ import annotations

import json
from pathlib import Path

import click

from strandline.cli.app.json_output import tell
from strandline.cli.app.ledger_access import locate, looking, place_output
from strandline.cli.app.options import show_examples, take_json, take_manifest, take_volume
from strandline.cli.views.format import spell_amount, spell_bytes, spell_count, spell_text
from strandline.ledger.errors import LedgerError
from strandline.ledger.gather.verification import verify_pieces
from strandline.ledger.placing import Placing, find_move, name_old
from strandline.ledger.store.store import Store
from strandline.ledger.verification import Verdict, verify
from strandline.run.attempt.placing import find_placing
from strandline.run.manifest.manifest import read_manifest
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
def check(
    file: Path,
    settings: tuple[str, ...],
    volume: Path,
    no_bytes: bool,
    as_json: bool,
) -> int:
    """Prove that output and ledger agree.

    All files are there with the bytes that were written, nothing else is, nothing twice. So is what
    stages have gathered. What was found wrong is listed, and the exit code is 65.
    """
    plan = read_manifest(file, settings).plan
    outputs = open_outputs(place_output(plan, volume))
    folder = locate(plan, volume)
    with looking(folder) as store:
        _refuse_move(store, find_placing(plan, folder))
        verdict = verify(store, outputs, reads_bytes=not no_bytes)
        gathered = verify_pieces(store, folder.shards, reads_bytes=not no_bytes)
    problems = verdict.problems + gathered.problems
    verdict = verdict._replace(problems=problems, pieces=gathered.pieces)
    if as_json:
        content = {"verified": not verdict.problems, **verdict._asdict()}
        content["bytes"] = content.pop("size")
        tell(json.dumps(content))
    else:
        click.echo("\n".join(describe_verdict(verdict)))
    return ExitCode.LEDGER_MISMATCH if verdict.problems else ExitCode.COMPLETE


def _refuse_move(store: Store, placing: Placing) -> None:
    """What lies elsewhere proves nothing about this ledger."""
    if find_move(store, placing) is not None:
        msg = (
            f"the outputs of this ledger are at {name_old(store, placing)}, but the pipeline says "
            f"{placing.name}; if you have moved them, run `strandline ledger move-outputs`"
        )
        raise LedgerError(msg)


def describe_verdict(verdict: Verdict) -> list[str]:
    """The verdict as lines; only the first problems are named."""
    what = f"{spell_amount(verdict.outputs, 'file')}, {spell_bytes(verdict.size)}"
    held = f"{spell_amount(verdict.sources, 'finished source')}: {what}"
    if verdict.pieces:
        held += f"; {spell_amount(verdict.pieces, 'gathered piece')}"
    if verdict.unfinished:
        held += f"; {spell_amount(verdict.unfinished, 'unfinished source')} not judged"
    if not verdict.problems:
        return [f"verified: {held}"]
    rest = len(verdict.problems) - PROBLEMS_SHOWN
    return [
        f"not verified, {spell_amount(len(verdict.problems), 'problem')} ({held})",
        *(f"  {spell_text(problem)}" for problem in verdict.problems[:PROBLEMS_SHOWN]),
        *([f"  and {spell_count(rest)} more"] if rest > 0 else []),
    ]
