"""`strandline validate`, `plan` and `describe`: preview a manifest before a run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import click
import yaml

from strandline.cli.app.json_output import write_line
from strandline.cli.app.ledger_access import locate, locate_output, looking
from strandline.cli.app.options import (
    each_pipeline,
    show_examples,
    take_json,
    take_manifest,
    take_manifests,
    take_volume,
)
from strandline.cli.app.targets import list_targets, order_targets
from strandline.cli.app.terminal import find_width
from strandline.cli.views.format import format_amount
from strandline.cli.views.plans.facts import LedgerPreview, ListingFacts, PlanFacts, RedoPreview
from strandline.cli.views.plans.json_form import render_plan
from strandline.cli.views.plans.text import describe_plan
from strandline.ledger.access.lease import OnChange, find_changes
from strandline.ledger.access.output_location import make_claim
from strandline.ledger.checks.counts import count_sources
from strandline.ledger.store.store import Store
from strandline.plan.partition import pack
from strandline.plan.pipeline import PipelinePlan
from strandline.run.attempt.attempt import run_here
from strandline.run.attempt.engines import find_unmet_here
from strandline.run.attempt.sources.chaining import find_chaining
from strandline.run.attempt.sources.partitions import open_source
from strandline.run.attempt.sources.schema_inference import describe_schema, recall_schema
from strandline.run.code.requirements import check_requirements
from strandline.run.insight.funnel import WorstKill, estimate_worst
from strandline.run.insight.records import read_chain
from strandline.run.insight.samples import count_done, measure_stages, read_samples
from strandline.run.manifest.manifest import Manifest, read_manifest
from strandline.run.revise.cuts.auto_cuts import read_choice
from strandline.run.revise.listing import preview
from strandline.run.revise.marks.model_costs import estimate_costs
from strandline.storage.layout import PipelineFolder
from strandline_api.documents.problems import SpecError
from strandline_api.objects.pipeline import CurationPipeline
from strandline_api.outcome.exit_codes import ExitCode

SOURCES_WEIGHED = 100_000


@click.command(
    "validate",
    epilog=show_examples("strandline validate pipeline.yaml"),
)
@take_manifests
@take_volume
@take_json
def validate(
    files: tuple[Path, ...], settings: tuple[str, ...], volume: Path, as_json: bool
) -> int:
    """Check FILES: YAML, fields, stages, parameters, packages.

    All problems of a pipeline are listed at once, each with its path in the file. For several
    pipelines, the command also checks that each can run after the pipelines that it names or reads.
    """
    try:
        targets = order_targets(list_targets(files, settings, is_strict=True), None)
        others = [target.pipeline for target in targets]
        for target in targets:
            plan = read_manifest(
                target.file, settings, is_strict=True, volume=volume, others=others
            ).plan
            check_requirements(plan)
            if not as_json:
                stages = format_amount(len(plan.stages) - 1, "stage")
                ends = f"{plan.source.name}, {stages}, {plan.stages[-1].name}"
                click.echo(f"{target.file}: valid; {ends}")
    except SpecError as error:
        if not as_json:
            raise
        problems = [
            {"path": each.path, "message": each.message, "suggestion": each.suggestion}
            for each in error.problems
        ]
        write_line(json.dumps({"valid": False, "problems": problems}))
        return ExitCode.BAD_SPEC
    if as_json:
        write_line(json.dumps({"valid": True, "problems": []}))
    return ExitCode.COMPLETE


@click.command(
    "plan",
    epilog=show_examples(
        "strandline plan pipeline.yaml", "strandline plan pipeline.yaml --volume /data --list"
    ),
)
@take_manifests
@take_volume
@click.option(
    "--list", "lists", is_flag=True, help="List the sources and count those that will be skipped."
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="Number of workers to spread groups of sources over.  [default: one per core, or the "
    "smallest maximum of any stage]",
)
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="Send N rows to models, and estimate requests, tokens and cost of a whole run. The run "
    "reuses the answers.",
)
@take_json
def plan(
    files: tuple[Path, ...],
    settings: tuple[str, ...],
    volume: Path,
    lists: bool,
    workers: int | None,
    sample: int | None,
    as_json: bool,
) -> None:
    """Show what a run of FILES would do, and run nothing.

    The plan shows the stages with shape, resources and fan-out, the fingerprint, the location of
    the output, and the sources that the ledger already lists as finished. If sources share storage,
    --list shows their groups and the balance among workers; the first thousands of sources are
    always listed, to find out whether most form one group. --list also shows the inputs that the
    source leaves out, and the costs of a kill. Only --sample has side effects: it sends a few rows
    to models. Several pipelines are shown in the order in which they run.
    """
    targets = order_targets(list_targets(files, settings), volume)
    others, changing = [target.pipeline for target in targets], set[str]()
    for index, target in enumerate(targets):
        manifest = read_manifest(target.file, settings, volume=volume, others=others)
        facts = _plan_one(manifest, volume, workers, lists=lists or sample is not None)
        facts = _mark_outdated(facts, target.pipeline, changing)
        if sample is not None and facts.listing is not None:
            folder = locate(manifest.plan, volume).path
            estimates = estimate_costs(
                manifest.plan, sample, facts.listing.sources, folder, run_here
            )
            facts = facts._replace(estimates=estimates)
        if as_json:
            write_line(json.dumps(render_plan(facts)))
        else:
            click.echo("\n" * bool(index) + "\n".join(describe_plan(facts, find_width())))


def _mark_outdated(facts: PlanFacts, pipeline: CurationPipeline, changing: set[str]) -> PlanFacts:
    """Return the earlier pipelines whose changes affect this pipeline, recorded in its facts.

    Also add this pipeline to `changing` if it changes.

    Args:
        changing: names of the pipelines that change, or that depend on a changing pipeline.
    """
    before = tuple(name for name in pipeline.spec.predecessors if name in changing)
    has_finished = facts.ledger is not None and facts.ledger.counts["finished"] > 0
    # `Continue` keeps finished sources as they are, so nothing downstream becomes outdated.
    is_changed = has_finished and facts.ledger is not None and bool(facts.ledger.changes)
    if before or (is_changed and facts.on_change is not OnChange.CONTINUE):
        changing.add(facts.plan.name)
    return facts._replace(outdated_by=before if has_finished else ())


def _plan_one(manifest: Manifest, volume: Path, workers: int | None, *, lists: bool) -> PlanFacts:
    workers = workers or _count_workers(manifest.plan)
    count = partial(_count_listing, workers=workers, volume=volume)
    facts = _gather_facts(manifest, volume, count if lists else None)
    unmet = find_unmet_here(manifest.plan, manifest.pipeline.spec.engine)
    chaining = find_chaining(manifest.plan, time.monotonic)
    return facts._replace(unmet=tuple(map(str, unmet)), chaining=chaining)


@click.command(
    "describe", epilog=show_examples("strandline describe pipeline.yaml --set sink.batchSize=8")
)
@take_manifest
@take_volume
@take_json
@each_pipeline
def describe(file: Path, settings: tuple[str, ...], volume: Path, as_json: bool) -> None:
    """Print FILE with every default filled in.

    Defaults of stage parameters are included, and the output is an equivalent manifest.
    """
    document = fill_in(read_manifest(file, settings, volume=volume))
    if as_json:
        write_line(json.dumps(document))
    else:
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
        click.echo(text, nl=False)


def fill_in(manifest: Manifest) -> dict[str, Any]:
    """Return the manifest as a document that includes all defaults."""
    document = manifest.pipeline.model_dump(mode="json", by_alias=True, exclude={"status"})
    spec, plan = document["spec"], manifest.plan
    items = [spec["source"], *spec["stages"], spec["sink"]]
    for item, stage in zip(items, (plan.source, *plan.stages), strict=True):
        item["name"] = stage.name
        item["with"] = stage.stage.params.model_dump(mode="json", by_alias=True)
    return document


def _gather_facts(
    manifest: Manifest,
    volume: Path,
    count: Callable[[PipelinePlan, Store | None], ListingFacts] | None,
) -> PlanFacts:
    plan = manifest.plan
    on_change = OnChange(manifest.pipeline.spec.on_change)
    folder, output = locate(plan, volume), locate_output(plan, volume)
    if not (folder.ledger / "data.mdb").exists():
        listing = count(plan, None) if count else None
        return PlanFacts(plan, on_change, output, None, listing, schema=describe_schema(plan))
    with looking(folder) as store:
        lease = store.read_meta("lease") or {"attempt": 0}
        changes = find_changes(store, make_claim(plan, folder))
        ledger = LedgerPreview(lease["attempt"], count_sources(store), changes)
        listing = count(plan, store) if count else None
        plan = recall_schema(plan, store)
        worst = _estimate_worst(store, folder)
        cuts = read_choice(store).judged if manifest.pipeline.spec.keep else ()
        redo = None
        if on_change is OnChange.REDO:
            redo = _preview_redo(store, plan, folder)
    schema = describe_schema(plan)
    if listing is not None:
        # Under Restart, a run repeats all finished sources, which the listing still counts as
        # skipped.
        again = ledger.counts["finished"] if on_change is OnChange.RESTART and changes else 0
        again += sum(redo.starts.values()) if redo else 0
        # The difference is negative if finished sources are no longer listed.
        listing = listing._replace(skipped=max(0, listing.skipped - again))
    known = PlanFacts(plan, on_change, output, ledger, listing, schema=schema, worst=worst)
    return known._replace(redo=redo, cuts=cuts)


def _preview_redo(store: Store, plan: PipelinePlan, folder: PipelineFolder) -> RedoPreview | None:
    found = preview(store, make_claim(plan, folder), plan)
    if found is None or not found.total:
        return None
    seconds = measure_stages(folder)
    names = [stage.name for stage in plan.stages]
    cost = sum(
        seconds.get(name, 0.0) * number
        for start, number in found.starts.items()
        # Sources that start from a kept output run only the stages after that output.
        for name in names[names.index(start.after) + 1 if start.after else 0 :]
    )
    return RedoPreview(found.first, found.starts, cost)


def _estimate_worst(store: Store, folder: PipelineFolder) -> WorstKill | None:
    seconds, done = 0.0, 0
    for record in read_chain(folder):
        samples = read_samples(folder, record.number)
        if samples is None:
            continue
        seconds += sum(each.seconds for each in samples.counts.values())
        done += count_done(record, samples)
    return estimate_worst(_list_weights(store), seconds, done)


def _list_weights(store: Store) -> Iterator[tuple[str, float, int]]:
    """Yield key, seconds of work, and bytes of the first finished sources."""
    for _, _, record in islice(store.list_records(), SOURCES_WEIGHED):
        seconds = sum(effort.seconds or 0.0 for effort in record.efforts)
        yield record.key, seconds, sum(output.size for output in record.data)


def _count_listing(
    plan: PipelinePlan, store: Store | None, workers: int, volume: Path
) -> ListingFacts:
    (source, listing), skipped, sizes = open_source(plan, volume), 0, list[int]()
    while not listing.is_ended:
        batch = listing.draw()
        if store:
            skipped += len(batch) - len(store.find_unfinished([listed for listed, _ in batch]))
        if plan.partitioned_by:
            sizes += [len((source.meta or {})["members"]) for _, source in batch]
    balance = pack(sizes, workers) if sizes else None
    return ListingFacts(listing.listed, skipped, balance, dict(source.counters))


def _count_workers(plan: PipelinePlan) -> int:
    bounds = (stage.max_workers for stage in plan.stages)
    # `filter` removes None, which stands for an unknown number of cores or for no maximum.
    return min(filter(None, (os.cpu_count(), *bounds)), default=1)
