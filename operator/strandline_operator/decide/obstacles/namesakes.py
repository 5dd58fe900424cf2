"""What a pipeline of the same name has left behind that may still run.

A pipeline that was deleted without its finalizer, or whose objects were orphaned, leaves pods under
its own uid. One that is made anew under the name has the same volume, so it waits for them. This
room must not know how they were found.
"""

from __future__ import annotations

from collections.abc import Iterable

from strandline_api.status.handled_tokens import HandledTokens
from strandline_api.status.reasons import Reason
from strandline_operator.decide.evidence.rayjobs import TERMINAL
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import Pass
from strandline_operator.model.objects import Pod, RayClusterState, RayJob
from strandline_operator.model.view import AttemptObject, PipelineView

_OVER = frozenset({"Succeeded", "Failed"})
_MOST_NAMED = 3


def may_launch(pipeline: PipelineView, current: AttemptObject | None) -> bool:
    """Return whether this pass may make an attempt or its RayJob, so must know what hinders.

    That is namesakes, and code that is not there.
    """
    spec, status = pipeline.spec, pipeline.status
    # A look costs requests, and no attempt is made in these states.
    if spec is None or pipeline.meta.is_deleting or spec.suspend:
        return False
    # A launched attempt has the volume to itself already.
    if current is not None and not current.status.is_frozen:
        return current.status.ray_job is None and current.status.end_time is None
    is_over = status.answered_run == spec.run_id and status.next_attempt_time is None
    return not is_over or HandledTokens.of(pipeline.meta.annotations) != status.handled


def list_living(
    rayjobs: Iterable[RayJob], clusters: Iterable[RayClusterState], pods: Iterable[Pod]
) -> tuple[str, ...]:
    """Name what may still run, pods first: they are what has the volume."""
    return (
        *(f"pod {pod.meta.name}" for pod in pods if pod.phase not in _OVER),
        *(f"RayCluster {cluster.meta.name}" for cluster in clusters),
        *(f"RayJob {rayjob.meta.name}" for rayjob in rayjobs if rayjob.deployment not in TERMINAL),
    )


def find_namesakes(facts: Pass) -> Block | None:
    """Find something of an earlier pipeline of this name that is still there."""
    namesakes = facts.view.namesakes
    if not namesakes:
        return None
    more = len(namesakes) - _MOST_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return Block(Reason.NAMESAKE_RUNS, f"{', '.join(namesakes[:_MOST_NAMED])}{rest}.")
