"""A driver that does not answer: what is said of it at first, and when that ends the attempt.

Nobody but this process counts: a driver that was heard before an outage of the operator's has not
been silent meanwhile. One that answers lives, whatever it says; whether its work goes on is its own
parent's to judge, which sees the process.
"""

from __future__ import annotations

from strandline_api.objects.attempt import AttemptStatus
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_api.status.reasons import Reason
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import Scene, is_head
from strandline_operator.model.limits import Limits
from strandline_operator.model.view import Silence


def find_stall(
    scene: Scene, status: AttemptStatus, spec: PipelineSpec, limits: Limits
) -> Evidence | None:
    """That a driver is silent for too long; one that was never heard by anybody is let alone."""
    silence = _find_silence(scene)
    if status.progress is None or not silence.is_longer_than(spec.deadlines.stall_seconds):
        return None
    message = f"no sign of life for {silence.seconds:.0f} s: {_describe_way(scene, limits)}"
    details = {"questions": silence.questions}
    return Evidence(Cause.STALLED, message, "deadline", details)


def find_silence(
    scene: Scene, status: AttemptStatus, spec: PipelineSpec, limits: Limits
) -> Block | None:
    """That a driver can't be reached, while nothing is ended by that yet."""
    if status.end_time is not None or not _find_silence(scene).is_lasting:
        return None
    longest = spec.deadlines.stall_seconds
    # Nothing here changes while it lasts, or each pass would write the status anew.
    then = "the attempt goes on"
    if status.progress is not None:
        then = f"after {longest:g} s of that the attempt ends as Stalled"
    return Block(Reason.DRIVER_NOT_REACHED, f"{_describe_way(scene, limits)}; {then}")


def _find_silence(scene: Scene) -> Silence:
    """As it counts for an attempt: where KubeRay says that the driver has ended, it does not."""
    return scene.driver.silence if scene.driver and scene.is_running else Silence()


def _describe_way(scene: Scene, limits: Limits) -> str:
    """The head's pod as the cluster shows it: whether it is to be looked at, or the way to it."""
    head = next(filter(is_head, scene.pods), None)
    if head is None:
        return "there is no head pod"
    if head.phase == "Running" and head.is_ready:
        way = f"the way to its port {limits.driver_port} may be cut"
        return f"head pod {head.meta.name} runs and is Ready, so {way}"
    state = "Running but not Ready" if head.phase == "Running" else head.phase or "of no phase"
    return f"head pod {head.meta.name} is {state}"
