"""`strandline kept`: shows and prunes the outputs that stages with `keep` have kept."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.ledger_access import locate, locate_output, looking
from strandline.cli.app.options import (
    each_pipeline,
    show_examples,
    take_json,
    take_manifest,
    take_volume,
)
from strandline.cli.views.format import format_amount, format_bytes, format_seconds
from strandline.cli.views.plans.text import describe_cut
from strandline.ledger.access.commands import hold_by_command, make_claimant, written_alone
from strandline.ledger.access.session import require_ledger
from strandline.ledger.output_root import clean_up
from strandline.plan.pipeline import PipelinePlan
from strandline.run.insight.records import read_chain
from strandline.run.insight.samples import measure_stages
from strandline.run.manifest.manifest import read_manifest
from strandline.run.revise.cuts.auto_cuts import read_choice
from strandline.run.revise.cuts.files import (
    CutSize,
    PruneCounts,
    choose_old,
    measure_all_cuts,
    prune_cuts,
    prune_space,
)
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.remote import open_outputs
from strandline_api.notation.quantities import parse_duration, parse_memory

NOTHING = "no output is kept; set `keep: true` on a stage"


@click.group("kept")
def kept() -> None:
    """Show and prune the outputs of stages with `keep`."""


@kept.command("list", epilog=show_examples("strandline kept list pipeline.yaml --json"))
@take_manifest
@take_volume
@take_json
@each_pipeline
def list_kept(file: Path, settings: tuple[str, ...], volume: Path, as_json: bool) -> None:
    """Show the size of each stage's kept output, and the work that it saves."""
    manifest = read_manifest(file, settings, volume=volume)
    plan = manifest.plan
    folder = locate(plan, volume)
    with looking(folder) as store:
        sizes = measure_all_cuts(store, _measure_saved(plan, folder))
        cuts = read_choice(store).judged if manifest.pipeline.spec.keep else ()
    if as_json:
        write_line(json.dumps([each._asdict() for each in sizes]))
    elif sizes:
        for each in sizes:
            write_line(_describe(each))
    else:
        click.echo(NOTHING)
    if not as_json:
        for cut in cuts:
            write_line(describe_cut(cut))


@kept.command(
    "prune",
    epilog=show_examples(
        "strandline kept prune pipeline.yaml --older-than 30d",
        "strandline kept prune pipeline.yaml --at-most 200Gi",
    ),
)
@take_manifest
@take_volume
@click.option(
    "--older-than",
    metavar="DURATION",
    help="Minimum age of the output to remove, such as 30d; 0s removes all.",
)
@click.option(
    "--at-most",
    metavar="SIZE",
    help="Size to reduce kept output to, such as 200Gi; the least useful is removed first.",
)
@click.option("--stage", "stages", multiple=True, help="Only output of this stage; repeatable.")
def prune(
    file: Path,
    settings: tuple[str, ...],
    volume: Path,
    older_than: str | None,
    at_most: str | None,
    stages: tuple[str, ...],
) -> None:
    """Remove kept outputs of sources that are older than a duration, or beyond a size.

    Final outputs stay. Refused while the pipeline runs.
    """
    # Require either an age or a size. Only with an age, the command can be limited to stages.
    if (older_than is None) == (at_most is None) or (stages and older_than is None):
        raise click.UsageError("use --older-than, optionally with --stage, or --at-most")
    try:
        age = None if older_than is None else _read_age(older_than)
        limit = None if at_most is None else parse_memory(at_most)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    plan = read_manifest(file, settings, volume=volume).plan
    folder, location = locate(plan, volume), locate_output(plan, volume)
    require_ledger(folder.ledger)
    claimant = make_claimant()
    with (
        written_alone(folder, claimant) as store,
        hold_by_command(store, folder, claimant) as (_, heartbeat),
    ):
        work = heartbeat.note_progress
        if limit is not None:
            sizes = measure_all_cuts(store, _measure_saved(plan, folder))
            pruned = prune_space(store, sizes, limit, work)
        else:
            before = _find_first(folder, time.time() - (age or 0.0))
            pruned = prune_cuts(store, choose_old(before, stages), work)
        clean_up(store, open_outputs(location), work)
    click.echo(_describe_pruned(pruned))


def _read_age(text: str) -> float:
    return 0.0 if text in {"0", "0s"} else parse_duration(text)


def _find_first(folder: PipelineFolder, time: float) -> float:
    """Return the number of the first attempt that started at or after a time, or infinity."""
    # The ledger records the attempt that wrote an output instead of the time, so convert the time
    # into the number of an attempt.
    return min(
        (each.number for each in read_chain(folder) if each.started >= time), default=math.inf
    )


def _measure_saved(plan: PipelinePlan, folder: PipelineFolder) -> dict[str, float]:
    """Return, for each stage, the seconds of work that a source saves if its output is kept."""
    seconds, saved, total = measure_stages(folder), dict[str, float](), 0.0
    for stage in plan.stages:
        total += seconds.get(stage.name, 0.0)
        saved[stage.name] = total
    return saved


def _describe(size: CutSize) -> str:
    what = f"{format_amount(size.sources, 'source')}, {format_bytes(size.size)}"
    saves = f"; saves {format_seconds(size.seconds)} of work" if size.seconds else ""
    return f"{size.stage}: {what}{saves}"


def _describe_pruned(pruned: PruneCounts) -> str:
    if not pruned.cuts:
        return "nothing to prune"
    which = format_amount(pruned.cuts, "source")
    return f"pruned: kept output of {which}, {format_bytes(pruned.size)}"
