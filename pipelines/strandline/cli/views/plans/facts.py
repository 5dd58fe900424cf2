"""Facts of a plan and of its ledger, for a preview."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from strandline.engine.flow.chains import cut_chains
from strandline.ledger.access.lease import OnChange
from strandline.plan.partition import Balance, Chaining
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.stages.columns import ColumnStep, trace_columns
from strandline.run.insight.funnel import WorstKill
from strandline.run.revise.cuts.choice import Judged
from strandline.run.revise.listing import Start
from strandline.run.revise.marks.model_costs import AskEstimate


class LedgerPreview(NamedTuple):
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
        counters: what the source has counted, such as what it has not looked at.
    """

    sources: int
    skipped: int
    balance: Balance | None = None
    counters: Mapping[str, int] = MappingProxyType({})


class PlanFacts(NamedTuple):
    """A plan and what is known about it on a volume.

    Attributes:
        output: folder or URL.
        ledger: None where the pipeline was never run there.
        listing: None where it was not asked for.
        unmet: why a run on this machine would be refused.
        chaining: that most sources are chained into one group; None: they aren't.
        schema: of what is read, in words; None where each task has its own.
        worst: what a kill costs at the worst moment; None where nothing was measured.
        redo: what of finished sources would be redone; None: nothing.
        cuts: that were thought of where the pipeline leaves open what is kept.
        estimates: of stages that ask models, where some rows were asked for.
        outdated_by: pipelines before it that change, so that sources finished here are outdated.
    """

    plan: PipelinePlan
    on_change: OnChange
    output: str
    ledger: LedgerPreview | None
    listing: ListingFacts | None
    unmet: tuple[str, ...] = ()
    chaining: Chaining | None = None
    schema: str | None = None
    worst: WorstKill | None = None
    redo: RedoPreview | None = None
    cuts: tuple[Judged, ...] = ()
    estimates: tuple[AskEstimate, ...] = ()
    outdated_by: tuple[str, ...] = ()


class RedoPreview(NamedTuple):
    """What a run would redo of finished sources.

    Attributes:
        first: sources by the first stage that has changed.
        starts: sources by where they go on.
        seconds: of stages' own work, by what it took so far; 0: that is not known.
    """

    first: Mapping[str, int]
    starts: Mapping[Start, int]
    seconds: float


def trace_stages(stages: Sequence[StagePlan]) -> Iterator[ColumnStep]:
    """Yield the columns of rows before and after each stage."""
    return trace_columns((stage.name, stage.stage) for stage in stages)


def describe_on_error(stage: StagePlan) -> str:
    """Describe what follows an error in words; empty where its source fails, as ever."""
    if stage.on_error == "fail":
        return ""
    action = "drops" if stage.on_error == "drop" else "dead letters"
    return f"{action}, by {'row' if stage.splits else 'task'}"


def number_chains(plan: PipelinePlan) -> Iterator[str]:
    """Yield the number of the chain that each stage runs in, from 1; see `cut_chains`."""
    for number, chain in enumerate(cut_chains(plan.stages), start=1):
        yield from [str(number)] * len(chain.stages)
