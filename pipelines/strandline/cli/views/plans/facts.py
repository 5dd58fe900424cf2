"""Facts about a plan and its ledger, for a preview."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from strandline.engine.flow.chains import cut_chains
from strandline.ledger.access.lease import OnChange
from strandline.plan.partition import Balance, ChainFinding
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.stages.columns import ColumnStep, trace_columns
from strandline.run.insight.funnel import WorstKill
from strandline.run.revise.cuts.choice import ConsideredCut
from strandline.run.revise.marks.model_costs import AskEstimate
from strandline.run.revise.starts.start import Start


class LedgerPreview(NamedTuple):
    """State of a ledger before a run.

    Attributes:
        attempt: number of the last attempt.
        counts: number of sources by state: `finished`, `failed`, and `inflight`.
        changes: differences from the pipeline that wrote the ledger, one per line.
    """

    attempt: int
    counts: dict[str, int]
    changes: list[str]


class ListingFacts(NamedTuple):
    """Result of listing the sources.

    Attributes:
        sources: number of sources; a group counts as one.
        skipped: number of sources that a run would skip.
        balance: distribution of groups that share storage; None if it was not requested.
        counters: counters of the source, such as inputs that it left out.
    """

    sources: int
    skipped: int
    balance: Balance | None = None
    counters: Mapping[str, int] = MappingProxyType({})


class PlanFacts(NamedTuple):
    """A plan, with facts from its volume.

    Attributes:
        output: folder or URL of the outputs.
        ledger: state of the ledger; None if the pipeline never ran on the volume.
        listing: result of listing the sources; None if it was not requested.
        unmet: reasons why this machine would reject a run.
        chaining: finding that most sources form a single group because they share storage, or None.
        schema: description of the input's schema; None if each task has its own schema.
        worst: cost of a kill at the worst moment; None if there are no measurements.
        redo: finished sources that would be processed again, or None.
        cuts: cuts among which the run would choose, if the pipeline leaves the choice open.
        estimates: estimates for stages with models, if a sample was requested.
        outdated_by: earlier pipelines whose changes make this pipeline's finished sources outdated.
    """

    plan: PipelinePlan
    on_change: OnChange
    output: str
    ledger: LedgerPreview | None
    listing: ListingFacts | None
    unmet: tuple[str, ...] = ()
    chaining: ChainFinding | None = None
    schema: str | None = None
    worst: WorstKill | None = None
    redo: RedoPreview | None = None
    cuts: tuple[ConsideredCut, ...] = ()
    estimates: tuple[AskEstimate, ...] = ()
    outdated_by: tuple[str, ...] = ()


class RedoPreview(NamedTuple):
    """Finished sources that a run would process again.

    Attributes:
        first: sources by the first changed stage.
        starts: sources by the point where they resume.
        seconds: estimated work, from earlier measurements of the stages; 0 if unknown.
    """

    first: Mapping[str, int]
    starts: Mapping[Start, int]
    seconds: float


def trace_stages(stages: Sequence[StagePlan]) -> Iterator[ColumnStep]:
    """Yield the columns of the rows that enter and leave each stage."""
    return trace_columns((stage.name, stage.stage) for stage in stages)


def describe_on_error(stage: StagePlan) -> str:
    """Describe how a stage handles errors; empty for the default, which fails the source."""
    if stage.on_error == "fail":
        return ""
    action = "drops" if stage.on_error == "drop" else "dead letters"
    return f"{action}, by {'row' if stage.splits else 'task'}"


def number_chains(plan: PipelinePlan) -> Iterator[str]:
    """Yield, for each stage, the number of the chain that contains it, from 1; see `cut_chains`."""
    for number, chain in enumerate(cut_chains(plan.stages), start=1):
        yield from [str(number)] * len(chain.stages)
