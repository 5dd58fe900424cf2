"""Configuration of an attempt. Every phase of the attempt gets the whole object."""

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
    """The plan to run, and the settings of the attempt.

    Attributes:
        plan: the plan to run.
        volume: folder that holds the ledger and the attempts, or None to run without a ledger.
        engine: an entry of `engines.ENGINES`.
        address: address of an existing Ray cluster, or None to start a local cluster.
        workers: CPUs of the local Ray instance, or None to use all CPUs of the machine.
        on_change: what to do if the pipeline has changed.
        quarantine, checkpoint: the pipeline's settings.
        cuts: which cuts to keep, in addition to cuts that stages request.
        publishing: requirements to meet before readers see the results, or None for no
            requirements.
        deliver: delivers the outputs of a complete run that meets all requirements, under the lease
            of the attempt, and returns a description of the target. None if nothing is delivered.
        trigger: why the attempt was started. A repair looks for damaged files first.
        dead_letters: the stage whose dead letters are retried instead of sources, or None to
            process sources.
        after: cause of the previous attempt's end, if a supervisor or an operator has better
            evidence than this machine, or None.
        parent: pid of the supervising process, or None if there is no supervisor.
        stall: seconds without progress after which the attempt counts as dead, or None for no
            limit.
        wait: seconds that a stage with work may wait for its first worker on a cluster, or None for
            no limit.
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
        """The pipeline's own folder on the volume. The run must have a volume."""
        assert self.volume is not None  # runs without a volume never use the folder
        return PipelineFolder.on_volume(self.volume, self.plan.namespace, self.plan.name)

    def count_by_source(self) -> AttemptConfig:
        """Return a copy whose stages count rows by source, and measure work if this is enabled."""
        first, *others = self.plan.stages
        stages = [replace(first, is_first=True), *others]
        if self.checkpoint.source_metrics:
            stages = [replace(stage, is_metered=True) for stage in stages]
        return replace(self, plan=replace(self.plan, stages=tuple(stages)))
