"""What a pipeline of the same name has left behind that may still run.

A pipeline that was deleted without its finalizer, or whose objects were orphaned, leaves pods under
its own uid. One that is made anew under the name has the same volume, so it waits for them. This
room must not know how they were found.
"""

from __future__ import annotations

from collections.abc import Iterable

from strandline_api.status.pipeline_status import HandledTokens
from strandline_api.status.reasons import Reason
from strandline_operator.decide.evidence import TERMINAL
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.model.objects import Pod, RayCluster, RayJob
from strandline_operator.model.view import AttemptView, PipelineView, View

_OVER = frozenset({"Succeeded", "Failed"})
_MOST_NAMED = 3


def may_launch(pipeline: PipelineView, current: AttemptView | None) -> bool:
    """Whether this pass may make an attempt or its RayJob, so that it must know what hinders that.

    That is namesakes, and code that is not there.
    """
    spec, status = pipeline.spec, pipeline.status
    if spec is None or pipeline.meta.is_deleting or spec.suspend:
        return False
    if current is not None and not current.status.is_frozen:
        return current.status.ray_job is None and current.status.end_time is None
    is_over = status.run == spec.run_id and status.next_attempt_time is None
    return not is_over or HandledTokens.of(pipeline.meta.annotations) != status.handled


def list_living(
    rayjobs: Iterable[RayJob], clusters: Iterable[RayCluster], pods: Iterable[Pod]
) -> tuple[str, ...]:
    """Name what may still run, pods first: they are what has the volume."""
    return (
        *(f"pod {one.meta.name}" for one in pods if one.phase not in _OVER),
        *(f"RayCluster {one.meta.name}" for one in clusters),
        *(f"RayJob {one.meta.name}" for one in rayjobs if one.deployment not in TERMINAL),
    )


def find_namesakes(view: View) -> Block | None:
    """That something of an earlier pipeline of this name is still there."""
    if not view.namesakes:
        return None
    more = len(view.namesakes) - _MOST_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return Block(Reason.NAMESAKE_RUNS, f"{', '.join(view.namesakes[:_MOST_NAMED])}{rest}.")
