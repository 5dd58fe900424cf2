"""Decides when to report a driver that does not respond, and when to end its attempt.

Only silence that this operator process observed counts: the operator's own downtime is not a
silence of the driver. A driver that responds is alive; the driver's parent process decides whether
the driver makes progress.
"""

from __future__ import annotations

from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_api.status.reasons import Reason
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import Scene, is_head
from strandline_operator.model.view import Silence


def find_stall(scene: Scene) -> Evidence | None:
    """Return evidence of a driver that has not responded for too long, if there is any."""
    silence = _find_silence(scene)
    longest = scene.spec.deadlines.stall_seconds
    # Ignore a driver that never responded: a network policy may isolate it on purpose.
    if scene.status.progress is None or not silence.is_longer_than(longest):
        return None
    message = f"the driver did not answer for {silence.seconds:.0f} s: {_describe_way(scene)}"
    details = {"questions": silence.questions}
    return Evidence(Cause.STALLED, message, "deadline", details)


def find_silence(scene: Scene) -> Block | None:
    """Report an unreachable driver before its silence ends the attempt."""
    # Ignore a single lost packet, and an ended driver, which need not respond.
    if scene.status.end_time is not None or not _find_silence(scene).is_lasting:
        return None
    longest = scene.spec.deadlines.stall_seconds
    # Keep the message constant during a silence. Otherwise, each pass would write the status.
    then = "the attempt continues"
    if scene.status.progress is not None:
        then = f"after {longest:g} s without an answer the attempt ends as Stalled"
    return Block(Reason.DRIVER_NOT_REACHED, f"{_describe_way(scene)}; {then}")


def _find_silence(scene: Scene) -> Silence:
    """Return the driver's silence, or an empty silence if the driver is not running."""
    return scene.driver.silence if scene.driver and scene.is_running else Silence()


def _describe_way(scene: Scene) -> str:
    """Describe where to look for the problem: at the head pod, or at the network path to it."""
    head = next(filter(is_head, scene.pods), None)
    if head is None:
        return "there is no head pod"
    # The pod is healthy, so the network path is the likely problem.
    if head.phase == "Running" and head.is_ready:
        port = head.driver_port or scene.limits.driver_port
        path = f"the network path to its port {port} may be blocked"
        return f"head pod {head.meta.name} is Running and Ready, so {path}"
    state = "Running but not Ready" if head.phase == "Running" else head.phase or "new"
    return f"head pod {head.meta.name} is {state}"
