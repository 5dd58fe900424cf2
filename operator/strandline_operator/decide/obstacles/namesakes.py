"""Reports objects of a deleted pipeline of the same name that may still run.

If a pipeline was deleted without its finalizer, or its objects were orphaned, its pods remain, with
the old pipeline's uid. A new pipeline of the same name uses the same volume, so it waits for the
old pods. This module must not depend on how the old objects were found.
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
    """Return True if this pass may create an attempt or its RayJob.

    Only then do objects of an earlier pipeline, or missing code, matter.
    """
    spec, status = pipeline.spec, pipeline.status
    # In these states, no attempt is created, so skip the check and the API requests for the check.
    if spec is None or pipeline.meta.is_deleting or spec.suspend:
        return False
    # An attempt with a RayJob already has exclusive use of the volume.
    if current is not None and not current.status.is_frozen:
        return current.status.ray_job is None and current.status.end_time is None
    is_over = status.answered_run == spec.run_id and status.next_attempt_time is None
    return (
        not is_over or HandledTokens.from_annotations(pipeline.meta.annotations) != status.handled
    )


def list_living(
    rayjobs: Iterable[RayJob], clusters: Iterable[RayClusterState], pods: Iterable[Pod]
) -> tuple[str, ...]:
    """Return the names of objects that may still run; pods first, because they use the volume."""
    return (
        *(f"pod {pod.meta.name}" for pod in pods if pod.phase not in _OVER),
        *(f"RayCluster {cluster.meta.name}" for cluster in clusters),
        *(f"RayJob {rayjob.meta.name}" for rayjob in rayjobs if rayjob.deployment not in TERMINAL),
    )


def find_namesakes(facts: Pass) -> Block | None:
    """Report objects of an earlier pipeline with this name."""
    namesakes = facts.view.namesakes
    if not namesakes:
        return None
    more = len(namesakes) - _MOST_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return Block(Reason.NAMESAKE_RUNS, f"{', '.join(namesakes[:_MOST_NAMED])}{rest}.")
