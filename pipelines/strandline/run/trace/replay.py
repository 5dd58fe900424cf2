"""Runs sources through the stages again: in memory, without sink and ledger, and without requests.

The module must not depend on the reason for the replay.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from strandline.engine.call.stage.stage_tally import StageBrokenError
from strandline.engine.core.ports import Listing, Observe
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.stages.ends import Source
from strandline.plan.stages.paid import PaidStage, RecallingStage
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.control import make_control
from strandline.run.attempt.engines import IN_DRIVER, make_engine
from strandline.run.insight.memory_kills import MemoryKills
from strandline.run.revise.marks.model_costs import EmptySink
from strandline.storage.outputs.ports import OutputLocation


def list_replayed(plan: PipelinePlan, until: str | None) -> tuple[StagePlan, ...]:
    """Return the stages that can run again, without the sink.

    Args:
        until: the first stage that must not run, or None.
    """
    stages: list[StagePlan] = []
    for stage in plan.stages[:-1]:
        is_asked = isinstance(stage.stage, PaidStage) and not isinstance(
            stage.stage, RecallingStage
        )
        if stage.name == until or is_asked:
            break
        stages.append(stage)
    return tuple(stages)


def replay(
    plan: PipelinePlan,
    stages: Sequence[StagePlan],
    sources: Collection[Source],
    folder: Path,
    observe: Observe,
    must_stop: Callable[[], bool] = lambda: False,
) -> dict[str, str]:
    """Run sources through some stages. Return why sources failed, by key.

    Args:
        plan: the pipeline.
        stages: its first stages.
        folder: the pipeline's folder on the volume, with stored requests.
        observe: called after each call; the call of a sink has the last stage's output.
        must_stop: polled often; True drops the waiting work.

    Raises:
        StageSetupError: if a stage can't run here.
    """
    prepared = [_prepare(each, at, folder) for at, each in enumerate(stages)]
    # The sink has the name of the first stage that does not run, so that calls show their position.
    name = plan.stages[len(stages)].name
    sink = StagePlan(name, "nothing", EmptySink(), is_first=not stages)
    with (
        tempfile.TemporaryDirectory(prefix="strandline-trace-") as temporary,
        closing(MemoryKills.of_this_process()) as kills,
    ):
        cut = replace(plan, stages=(*prepared, sink))
        config = AttemptConfig(cut, None, engine=IN_DRIVER)
        control = make_control(config, must_stop, lambda _: None, kills)
        engine = make_engine(config, OutputLocation(temporary))
        listing = Listing(iter(sources))
        try:
            ending = engine.run(cut, listing, None, replace(control, observe=observe))
        except StageBrokenError as error:  # the stage fails every row, as in the run
            return {each.key: str(error) for each in sources}
    return {each.key: f"{each.stage}: {each.message}" for each in ending.failures}


def _prepare(plan: StagePlan, position: int, folder: Path) -> StagePlan:
    # Only a reader streams: the tasks of a whole source may not fit in memory. Other stages return
    # all results at once, so that the rows that a row becomes are known before they are passed on.
    plan = replace(plan, streams=plan.streams and position == 0, is_metered=False)
    if isinstance(plan.stage, RecallingStage):
        recalling = plan.stage.recall(folder, plan.name)
        plan = replace(plan, stage=recalling, on_error="deadLetter")
    # Tolerate all failed rows: a single source may have no others.
    return plan if plan.on_error == "fail" else replace(plan, tolerates="100%")
