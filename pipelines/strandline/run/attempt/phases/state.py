"""The state of an attempt between two phases."""

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
from strandline.run.revise.cuts.auto_cuts import AutoCuts, TrialResult

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AttemptState:
    """State of an attempt after some of its phases.

    Attributes:
        config: the plan to run, and the settings of the attempt.
        control: requests stops from the engine, and receives its progress.
        start: start of the attempt on the control's clock, in seconds.
        source: lists the sources.
        listing: sources to process next.
        held: the pipeline's folder with its ledger.
        gatherer: gathers statistics of stages.
        publisher: publishes the state; None in a run without a volume.
        plan: the plan of the stages to run; includes the schema after `settle`.
        cuts: which stages keep a cut; set by `try_cuts`.
        trial: the trial of cuts, or None if there is no trial.
        is_left: whether unfinished sources may remain.
        ending: how the work ended; set by `work`.
        result: the result of the attempt; set by `conclude`.
        was_stopped: whether a stop had been requested by the end of `conclude`.
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
    trial: TrialResult | None = None
    is_left: bool = True
    ending: Ending | None = None
    result: AttemptResult | None = None
    was_stopped: bool = False

    @property
    def is_retrial(self) -> bool:
        """Return True if the attempt retries dead letters instead of processing sources."""
        return self.config.dead_letters is not None

    def list_sources(self) -> Listing:
        """Start a new listing of all sources."""
        return list_all(self.config)

    def add_incidents(self, incidents: list[str]) -> AttemptState:
        """Return the state with the incidents added to its result."""
        result = require(self.result)
        more = replace(result, incidents=(*result.incidents, *incidents))
        return replace(self, result=more)


Phase = Callable[[AttemptState], AttemptState]


def list_all(config: AttemptConfig) -> Listing:
    """Start a listing of all sources of a pipeline."""
    return open_source(config.plan, config.volume, is_run=True)[1]


def require(value: T | None) -> T:
    """Return a value that an earlier phase must have set."""
    assert value is not None  # guaranteed by the order of phases, see `order`
    return value
