"""What is known of an attempt between two of its phases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from strandline.engine.core.ports import Control, Ending, Listing
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.stages.ends import SourceStage
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.folder.takeover import TakenFolder
from strandline.run.attempt.outcome import AttemptResult
from strandline.run.attempt.phases.publisher import Publisher
from strandline.run.attempt.sources.partitions import open_source
from strandline.run.release.gatherer import Gatherer
from strandline.run.revise.cuts.auto_cuts import AutoCuts, Tried

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AttemptState:
    """An attempt after some of its phases.

    Attributes:
        config: what to run, and how.
        control: steers the engine and watches it.
        start: time on the control's clock, in seconds, at which the attempt began.
        source: lists the sources.
        listing: sources that the next work is to process.
        held: the pipeline's folder with its ledger.
        gatherer: gathers statistics of stages.
        publisher: publishes; None in a run without a volume.
        plan: the plan, with a schema after `settle_schema`, of the stages that work.
        cuts: which stages keep a cut; set by `try_cuts`.
        trial: the trial of cuts; None where there was none.
        is_left: whether an unfinished source may be left.
        ending: how the work ended; set by `work`.
        result: what the attempt comes to; set by `conclude`.
        was_stopped: a stop was requested by the time of `conclude`.
    """

    config: AttemptConfig
    control: Control
    start: float
    source: SourceStage
    listing: Listing
    held: TakenFolder
    gatherer: Gatherer
    plan: PipelinePlan
    publisher: Publisher | None = None
    cuts: AutoCuts | None = None
    trial: Tried | None = None
    is_left: bool = True
    ending: Ending | None = None
    result: AttemptResult | None = None
    was_stopped: bool = False

    @property
    def is_retrial(self) -> bool:
        """Return whether dead letters are processed again, and no sources."""
        return self.config.dead_letters is not None

    def list_sources(self) -> Listing:
        """Begin a new listing of all sources."""
        return list_all(self.config)

    def add_incidents(self, incidents: list[str]) -> AttemptState:
        """Return the state with more incidents in its result."""
        result = require(self.result)
        more = replace(result, incidents=(*result.incidents, *incidents))
        return replace(self, result=more)


Phase = Callable[[AttemptState], AttemptState]


def list_all(config: AttemptConfig) -> Listing:
    """Begin a listing of all sources of a pipeline."""
    return open_source(config.plan, config.volume, is_run=True)[1]


def require(value: T | None) -> T:
    """Return a value that an earlier phase has set."""
    assert value is not None  # the order of phases, see `order`
    return value
