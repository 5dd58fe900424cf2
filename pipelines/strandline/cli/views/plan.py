"""How a plan reads: what would run, where it would write, and what is done already.

Pure: a plan and facts of its ledger in, text or plain data out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from strandline.cli.views.format import align, spell_amount, spell_bytes, spell_count
from strandline.ledger.lease import OnChange
from strandline.plan.partition import Balance
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.stage import Shape

_COLUMNS = (
    "stage",
    "use",
    "shape",
    "fans out",
    "gathers",
    "batch",
    "workers",
    "cpu",
    "gpu",
    "memory",
    "other",
)
_LOADS = 8  # workers whose load is shown


class LedgerFacts(NamedTuple):
    """What a ledger says before a run.

    Attributes:
        attempt: number of the last attempt.
        counts: sources that are `finished`, `failed` and `inflight`.
        changes: what differs from the pipeline that wrote it, a line each.
    """

    attempt: int
    counts: dict[str, int]
    changes: list[str]


class ListingFacts(NamedTuple):
    """What a listing would come to.

    Attributes:
        sources: how many there are; a group is one.
        skipped: those of them that a run would skip.
        balance: how groups of sources that share storage spread; None where none are asked for.
    """

    sources: int
    skipped: int
    balance: Balance | None = None


class PlanFacts(NamedTuple):
    """A plan and what is known about it on a volume.

    Attributes:
        output: folder or URL.
        ledger: None where the pipeline was never run there.
        listing: None where it was not asked for.
    """

    plan: PipelinePlan
    on_change: OnChange
    output: str
    ledger: LedgerFacts | None
    listing: ListingFacts | None


def describe_plan(facts: PlanFacts) -> list[str]:
    """The plan as lines."""
    plan = facts.plan
    heads = [
        ("pipeline", f"{plan.namespace}/{plan.name}, run {plan.run_id}"),
        ("fingerprint", plan.fingerprint.digest),
        ("output", facts.output),
        ("ledger", _describe_ledger(facts.ledger)),
    ]
    if facts.listing is not None:
        heads.append(("sources", _describe_listing(facts.listing)))
    if plan.partitioned_by:
        heads += _describe_groups(plan, facts.listing)
    stages = (plan.source, *plan.stages)
    rows = [_COLUMNS, *map(_describe_stage, stages)]
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    table = list(zip(*columns, strict=True))
    return [*align(heads, left=2), *_describe_changes(facts), "", *align(table, left=len(columns))]


def spell_plan(facts: PlanFacts) -> dict[str, Any]:
    """The plan for `plan --json`; its keys are stable."""
    plan, ledger, listing = facts.plan, facts.ledger, facts.listing
    return {
        "pipeline": plan.name,
        "namespace": plan.namespace,
        "run": plan.run_id,
        "fingerprint": plan.fingerprint.digest,
        "output": facts.output,
        "stages": [_spell_stage(stage) for stage in (plan.source, *plan.stages)],
        "ledger": ledger and {"attempt": ledger.attempt, **ledger.counts},
        "changes": ledger.changes if ledger else [],
        "onChange": facts.on_change.value,
        "sources": listing and {"total": listing.sources, "skipped": listing.skipped},
        "groups": listing and listing.balance and _spell_groups(listing.balance),
    }


def _describe_ledger(ledger: LedgerFacts | None) -> str:
    if ledger is None:
        return "none yet"
    counts = ledger.counts
    return (
        f"attempt {ledger.attempt}, {spell_amount(counts['finished'], 'source')} finished, "
        f"{spell_count(counts['failed'])} failed, {spell_count(counts['inflight'])} in flight"
    )


def _describe_listing(listing: ListingFacts) -> str:
    return f"{spell_count(listing.sources)} listed, {spell_count(listing.skipped)} to be skipped"


def _describe_groups(plan: PipelinePlan, listing: ListingFacts | None) -> list[tuple[str, str]]:
    ends = " and ".join(plan.partitioned_by)
    if listing is None or listing.balance is None:
        return [("groups", f"declared by {ends}; --list shows them")]
    sizes, loads = listing.balance
    shown = [*map(spell_count, loads[:_LOADS]), *(["..."] if len(loads) > _LOADS else [])]
    members = spell_amount(sum(sizes), "source")
    return [
        ("groups", f"{spell_count(len(sizes))} of {members}, declared by {ends}"),
        ("group size", f"{spell_count(sizes[0])} at most, {spell_count(sizes[-1])} at least"),
        ("loads", f"{', '.join(shown)} on {spell_amount(len(loads), 'worker')}"),
        ("balance", f"the largest load is {listing.balance.ratio:.2f} of the mean"),
    ]


def _spell_groups(balance: Balance) -> dict[str, Any]:
    return {
        "total": len(balance.sizes),
        "largest": balance.sizes[0],
        "smallest": balance.sizes[-1],
        "loads": balance.loads,
        "ratio": balance.ratio,
    }


def _describe_changes(facts: PlanFacts) -> Iterator[str]:
    if facts.ledger is None or not facts.ledger.changes:
        return
    yield ""
    yield {
        OnChange.FAIL: "the pipeline has changed, so a run is refused (onChange: Fail):",
        OnChange.RESTART: "the pipeline has changed, so a run redoes all (onChange: Restart):",
        OnChange.CONTINUE: "the pipeline has changed; a run keeps what is finished "
        "(onChange: Continue):",
    }[facts.on_change]
    yield from (f"  {line}" for line in facts.ledger.changes)


def _describe_stage(stage: StagePlan) -> tuple[str, ...]:
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
        "" if is_source else bounds,
        f"{stage.cpu:g}",
        f"{stage.gpu:g}" if stage.gpu else "",
        "" if stage.memory is None else spell_bytes(stage.memory),
        ", ".join(f"{name}: {amount:g}" for name, amount in stage.custom.items()),
    )


def _spell_stage(stage: StagePlan) -> dict[str, Any]:
    return {
        "name": stage.name,
        "use": stage.use,
        "shape": stage.shape.name.lower(),
        "fansOut": stage.may_fan_out,
        "gathers": stage.gathers,
        "batchSize": stage.batch_size,
        "group": stage.group,
        "workers": {"min": stage.min_workers, "max": stage.max_workers},
        "resources": {
            "cpu": stage.cpu,
            "gpu": stage.gpu,
            "memory": stage.memory,
            "custom": stage.custom,
        },
    }
