"""Formats the preview of a plan as text: planned work, outputs, and finished sources.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from strandline.cli.views.format import (
    align,
    escape_text,
    format_amount,
    format_bytes,
    format_count,
    format_seconds,
)
from strandline.cli.views.plans.facts import (
    LedgerPreview,
    ListingFacts,
    PlanFacts,
    describe_on_error,
    number_chains,
    trace_stages,
)
from strandline.data.statistics.request_figures import format_cost
from strandline.ledger.access.lease import OnChange
from strandline.plan.partition import ChainFinding
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.stages.columns import Columns, ColumnStep
from strandline.plan.stages.stage import Shape
from strandline.run.insight.funnel import WorstKill
from strandline.run.revise.cuts.choice import ConsideredCut, CutVerdict
from strandline.run.revise.marks.model_costs import AskEstimate
from strandline.run.revise.starts.rules import describe_start

_COLUMNS = (
    "stage",
    "use",
    "shape",
    "fans out",
    "gathers",
    "batch",
    "chain",
    "workers",
    "cpu",
    "gpu",
    "memory",
    "other",
    "on error",
    "keep",
)
LONG_SOURCE = 60.0  # if a source takes more seconds, suggest smaller sources
RANGES = "range_bytes"  # parameter of source stages that splits files
_LOADS = 8  # maximum number of workers whose load is shown


def describe_plan(facts: PlanFacts, width: int | None = None) -> list[str]:
    """Describe the plan as lines of at most `width` characters."""
    plan = facts.plan
    heads = [
        ("pipeline", f"{plan.namespace}/{plan.name}, run {plan.run_id}"),
        ("fingerprint", plan.fingerprint.digest),
        ("output", facts.output),
        ("ledger", _describe_ledger(facts.ledger)),
    ]
    if facts.worst is not None:
        heads += _describe_worst(facts.worst, plan.source)
    if facts.schema is not None:
        heads.append(("schema", facts.schema))
    if facts.listing is not None:
        heads.append(("sources", _describe_listing(facts.listing)))
        counters = sorted(facts.listing.counters.items())
        heads += [("", f"{name}: {format_count(count)}") for name, count in counters]
    heads += [("asks", _describe_estimate(each)) for each in facts.estimates]
    if plan.partitioned_by:
        heads += _describe_groups(plan, facts.listing)
    if facts.chaining is not None:
        heads.append(("chained", _describe_chaining(facts.chaining)))
    stages = (plan.source, *plan.stages)
    chains = ["", *number_chains(plan)]
    are_chained = len(set(chains)) < len(chains)
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for stage, chain in zip(stages, chains, strict=True):
        rows.append(_describe_stage(stage, chain if are_chained else ""))
    # Leave out columns without content, such as `gpu` if the pipeline uses no GPUs.
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    table = list(zip(*columns, strict=True))
    refused = [f"not possible on this machine: {sentence}" for sentence in facts.unmet]
    unread = [f"not in the fingerprint: {sentence}" for sentence in plan.fingerprint.unread]
    return [
        *align(heads, 2, width),
        *_describe_changes(facts),
        *_describe_redo(facts),
        *([""] if facts.cuts else []),
        *map(describe_cut, facts.cuts),
        "",
        *align(table, len(columns), width),
        *_describe_columns(stages, width),
        *([""] if refused or unread else []),
        *unread,
        *refused,
    ]


def _describe_ledger(ledger: LedgerPreview | None) -> str:
    if ledger is None:
        return "none yet"
    counts = ledger.counts
    return (
        f"attempt {ledger.attempt}, {format_amount(counts['finished'], 'source')} finished, "
        f"{format_count(counts['failed'])} failed, {format_count(counts['inflight'])} in flight"
    )


def _describe_worst(worst: WorstKill, source: StagePlan) -> Iterator[tuple[str, str]]:
    lost, mean = format_seconds(worst.seconds), format_seconds(worst.mean)
    largest = f"loses {lost} of work per worker, at the end of {escape_text(worst.key)}"
    yield "worst kill", f"{largest}; a source takes {mean} on average"
    if worst.seconds >= LONG_SOURCE:
        is_cut = RANGES in type(source.stage.params).model_fields
        way = f"a smaller `rangeBytes` of {source.name}" if is_cut else "smaller files"
        yield "", f"{way} would reduce the loss"


def _describe_listing(listing: ListingFacts) -> str:
    return f"{format_count(listing.sources)} listed, {format_count(listing.skipped)} to be skipped"


def _describe_estimate(estimate: AskEstimate) -> str:
    cost = "" if estimate.cost is None else f", cost {format_cost(estimate.cost)}"
    failed = (
        (f", {format_count(estimate.failed)} of them without an answer") if estimate.failed else ""
    )
    return (
        f"{estimate.stage}: about {format_count(estimate.requests)} requests for "
        f"{format_amount(estimate.rows, 'row')}, {format_count(estimate.prompt_tokens)} tokens of "
        f"prompts, {format_count(estimate.completion_tokens)} of answers{cost}; by "
        f"{format_amount(estimate.asked, 'row')}{failed}"
    )


def _describe_groups(plan: PipelinePlan, listing: ListingFacts | None) -> list[tuple[str, str]]:
    ends = " and ".join(plan.partitioned_by)
    if listing is None or listing.balance is None:
        return [("groups", f"declared by {ends}; --list shows them")]
    sizes, loads = listing.balance
    shown = [*map(format_count, loads[:_LOADS]), *(["..."] if len(loads) > _LOADS else [])]
    members = format_amount(sum(sizes), "source")
    return [
        ("groups", f"{format_count(len(sizes))} of {members}, declared by {ends}"),
        ("group size", f"{format_count(sizes[0])} at most, {format_count(sizes[-1])} at least"),
        ("loads", f"{', '.join(shown)} on {format_amount(len(loads), 'worker')}"),
        ("balance", f"the largest load is {listing.balance.ratio:.2f} of the mean"),
    ]


def _describe_chaining(chaining: ChainFinding) -> str:
    size, total, _ = chaining.largest
    first = "" if chaining.is_whole else "the first "
    words = f"{format_count(size)} of {first}{format_amount(total, 'source')} form one group"
    if chaining.field is None:
        return f"{words}; align the boundaries of sources and shared storage"
    return (
        f"{words}; with {chaining.field}: {chaining.chunk} the largest has "
        f"{format_count(chaining.size)}"
    )


def _describe_changes(facts: PlanFacts) -> Iterator[str]:
    if facts.ledger is None or not facts.ledger.changes:
        return
    yield ""
    if not facts.ledger.counts["finished"]:
        yield "the pipeline has changed, and nothing is finished; a run uses the new version:"
        yield from (f"  {line}" for line in facts.ledger.changes)
        return
    yield {
        OnChange.FAIL: "the pipeline has changed, so a run is rejected (onChange: Fail):",
        OnChange.RESTART: "the pipeline has changed, so a run starts over (onChange: Restart):",
        OnChange.CONTINUE: "the pipeline has changed; a run keeps finished sources (onChange: "
        "Continue):",
        OnChange.REDO: "the pipeline has changed; a run processes finished sources again "
        "(onChange: Redo):",
    }[facts.on_change]
    yield from (f"  {line}" for line in facts.ledger.changes)


def _describe_redo(facts: PlanFacts) -> Iterator[str]:
    for name in facts.outdated_by:
        yield from (
            "",
            f"outdated because {name!r} changes: run that pipeline first, then this one",
        )
    if (redo := facts.redo) is None:
        return
    yield ""
    for stage, number in redo.first.items():
        yield f"redo: {format_count(number)} finished sources, because {stage!r} changed"
    for start, number in redo.starts.items():
        yield f"  {format_count(number)} {describe_start(start)}"
    if redo.seconds:
        yield f"  about {format_seconds(redo.seconds)} of work, estimated from earlier work"


def describe_cut(cut: ConsideredCut) -> str:
    """Describe whether a cut would be kept, and the reason."""
    if cut.verdict is CutVerdict.IMPOSSIBLE:
        return f"{cut.stage}: not kept; its output is not a table, bytes or text"
    what = f"saves {format_seconds(cut.seconds)} per source for {format_bytes(int(cut.size))}"
    why = "requested" if cut.verdict is CutVerdict.ASKED else "keep: auto"
    kept = f"kept ({why})" if cut.is_kept else f"not kept: {cut.verdict}"
    return f"{cut.stage}: {kept}; {what}"


def _describe_columns(stages: Sequence[StagePlan], width: int | None) -> list[str]:
    """Describe the columns after each stage except the sink; return nothing if all are unknown."""
    steps = list(trace_stages(stages))[:-1]
    if not any(step.after.names for step in steps):
        return []
    rows = [(step.name, _describe_step(step)) for step in steps]
    return ["", *align([("stage", "columns after it"), *rows], 2, width)]


def _describe_step(step: ColumnStep) -> str:
    if step.after == Columns(is_open=True):
        return "unknown before a run"
    return "the same" if step.after == step.before else str(step.after)


def _describe_stage(stage: StagePlan, chain: str) -> tuple[str, ...]:
    is_source = stage.shape is Shape.SOURCE
    upper = "all" if stage.max_workers is None else str(stage.max_workers)
    bounds = upper if upper == str(stage.min_workers) else f"{stage.min_workers}-{upper}"
    return (
        stage.name,
        "" if stage.use == stage.name else stage.use,
        stage.shape.value if stage.group is None else f"{stage.group}→1",
        "yes" if stage.may_fan_out else "",
        "yes" if stage.gathers else "",
        "" if is_source else str(stage.batch_size),
        chain,
        "" if is_source else bounds,
        f"{stage.cpu:g}",
        f"{stage.gpu:g}" if stage.gpu else "",
        "" if stage.memory is None else format_bytes(stage.memory),
        ", ".join(f"{name}: {amount:g}" for name, amount in stage.custom.items()),
        describe_on_error(stage),
        "yes" if stage.has_cut else "",
    )
