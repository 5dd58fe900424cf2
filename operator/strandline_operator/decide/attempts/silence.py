"""A driver that does not answer: what is said of it at first, and when that ends the attempt.

This process alone counts: a driver that was heard before an outage of the operator's has not
been silent meanwhile. One that answers lives, whatever it says; whether its work goes on is its own
parent's to judge, which sees the process.
"""

from __future__ import annotations

from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_api.status.reasons import Reason
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import Scene, is_head
from strandline_operator.model.view import Silence


def find_stall(scene: Scene) -> Evidence | None:
    """Find a driver that is silent for too long; one that never answered is let alone."""
    silence = _find_silence(scene)
    longest = scene.spec.deadlines.stall_seconds
    # A driver that never answered may be shut off on purpose, by a network policy perhaps.
    if scene.status.progress is None or not silence.is_longer_than(longest):
        return None
    message = f"the driver did not answer for {silence.seconds:.0f} s: {_describe_way(scene)}"
    details = {"questions": silence.questions}
    return Evidence(Cause.STALLED, message, "deadline", details)


def find_silence(scene: Scene) -> Block | None:
    """Find a driver that can't be reached, while nothing is ended by that yet."""
    # A lost packet is no silence, and a driver that has ended need not answer.
    if scene.status.end_time is not None or not _find_silence(scene).is_lasting:
        return None
    longest = scene.spec.deadlines.stall_seconds
    # The sentence stays the same during a silence, or each pass would write the status again.
    then = "the attempt continues"
    if scene.status.progress is not None:
        then = f"after {longest:g} s without an answer the attempt ends as Stalled"
    return Block(Reason.DRIVER_NOT_REACHED, f"{_describe_way(scene)}; {then}")


def _find_silence(scene: Scene) -> Silence:
    """Return the silence that counts: none where KubeRay says that the driver has ended."""
    return scene.driver.silence if scene.driver and scene.is_running else Silence()


def _describe_way(scene: Scene) -> str:
    """Describe the head's pod: whether it is to be looked at, or the way to it."""
    head = next(filter(is_head, scene.pods), None)
    if head is None:
        return "there is no head pod"
    # Then it is not the pod that is to be looked at.
    if head.phase == "Running" and head.is_ready:
        port = head.driver_port or scene.limits.driver_port
        path = f"the network path to its port {port} may be blocked"
        return f"head pod {head.meta.name} is Running and Ready, so {path}"
    state = "Running but not Ready" if head.phase == "Running" else head.phase or "new"
    return f"head pod {head.meta.name} is {state}"
