"""All that one attempt is told before it begins, in one value that goes to each of its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from strandline.ledger.access.lease import OnChange
from strandline.ledger.access.session import LedgerSession
from strandline.plan.pipeline import PipelinePlan
from strandline.run.revise.cuts.auto_cuts import CutSettings
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.causes import Cause
from strandline_api.spec.policy import Checkpoint, Quarantine
from strandline_api.spec.publishing import Publishing
from strandline_api.status.enums import Trigger


@dataclass(frozen=True, slots=True)
class AttemptConfig:
    """What to run, and how.

    Attributes:
        plan: what to run.
        volume: folder that holds ledger and attempts; None: no ledger, nothing is tracked.
        engine: one of `engines.ENGINES`.
        address: of an existing Ray cluster; None starts a local one.
        workers: CPUs of the local Ray; None: the machine's.
        on_change: what to do when the pipeline has changed.
        quarantine, checkpoint: as the pipeline says.
        cuts: which of them are kept, beside those of stages that ask for it.
        publishing: what it requires before readers are led to results; None: nothing.
        deliver: hands over what a complete run has left that meets all of it, under the lease of
            the attempt, and describes where it is; None: nothing is handed over.
        trigger: why the attempt was started; one to repair looks for damage first.
        dead_letters: the stage that gets its dead letters again, and nothing else; None: sources
            are worked on.
        after: why the attempt before ended, where a supervisor or an operator knows better than
            this machine can.
        parent: pid of the process that supervises this one, if one does.
        stall: seconds without a sign of life after which it counts as dead; None: any number.
        wait: seconds that a stage with work may wait for its first worker on a cluster; None: any
            number.
    """

    plan: PipelinePlan
    volume: Path | None
    engine: str = "ray"
    address: str | None = None
    workers: int | None = None
    on_change: OnChange = OnChange.FAIL
    quarantine: Quarantine = field(default_factory=Quarantine)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    publishing: Publishing | None = None
    deliver: Callable[[LedgerSession], str] | None = None
    cuts: CutSettings = field(default_factory=CutSettings)
    trigger: Trigger = Trigger.RUN
    dead_letters: str | None = None
    after: Cause | None = None
    parent: int | None = None
    stall: float | None = None
    wait: float | None = None

    @property
    def folder(self) -> PipelineFolder:
        """The pipeline's own folder on the volume, where there is one."""
        assert self.volume is not None  # a run without a ledger asks for no folder
        return PipelineFolder.of(self.volume, self.plan.namespace, self.plan.name)

    def count_by_source(self) -> AttemptConfig:
        """Return the same with stages that count rows by source, and measure work if asked to."""
        first, *others = self.plan.stages
        stages = [replace(first, is_first=True), *others]
        if self.checkpoint.source_metrics:
            stages = [replace(stage, is_metered=True) for stage in stages]
        return replace(self, plan=replace(self.plan, stages=tuple(stages)))
