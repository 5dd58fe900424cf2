"""The code that a pipeline brings: not there to be brought, or not to be had in a pod."""

from __future__ import annotations

from strandline_api.names import GROUP_LABEL, ROLE_LABEL
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import find_outcome_line
from strandline_api.outcome.evidence import Evidence, find_signal, read_exit
from strandline_api.status.reasons import Reason
from strandline_operator.decide.obstacles.namesakes import may_launch
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import Pass, Scene, is_head
from strandline_operator.model.objects import Container, Pod, Termination
from strandline_operator.render.code import CONTAINER


def find_missing_code(facts: Pass) -> Block | None:
    """Find a ConfigMap with code that is not there, so that no attempt can be made.

    Unknown in the pass in which an attempt has become final: it began with one that had its copy.
    """
    view, name = facts.view, facts.spec.code.config_map
    # Code is read only where an attempt may be made, so elsewhere its absence means nothing.
    if name is None or not may_launch(view.pipeline, facts.newest):
        return None
    # A pod that mounts an absent ConfigMap would never start.
    if view.code is None:
        return Block(Reason.CODE_MISSING, f"ConfigMap {name}")
    # The pods would start, and fail at their first import.
    if not view.code.has_modules:
        return Block(Reason.CODE_MISSING, f"ConfigMap {name} has no key that ends in .py")
    return None


def find_lost_code(scene: Scene) -> Evidence | None:
    """Return why the code can't be fetched, where another try would not help.

    A head that can't fetch it never runs a driver. A worker's pod is made again by KubeRay, which
    mends what may pass; what its spec says wrong stays wrong.
    """
    for pod in scene.all_pods:
        for container in pod.containers:
            end = next(iter(container.ends), None)
            if container.name == CONTAINER and end is not None:
                evidence = _read_end(pod, container, end)
                if evidence is not None and (is_head(pod) or evidence.cause is Cause.INVALID_SPEC):
                    return evidence
    return None


def _read_end(pod: Pod, container: Container, end: Termination) -> Evidence | None:
    """Return what an end of the container that fetches says; a signal has another reason."""
    evidence = None if find_signal(end.exit_code) else read_exit(end.exit_code)
    if evidence is None:
        return None
    outcome = find_outcome_line(end.message)
    # An image without the command says so itself, and its last line is the sentence.
    lines = end.message.strip().splitlines() or [evidence.message]
    message = (
        outcome.message if outcome else f"pod {pod.meta.name} can't fetch its code: {lines[-1]}"
    )
    role = pod.meta.labels.get(ROLE_LABEL, "")
    details: dict[str, str | int] = {
        "pod": pod.meta.name,
        "node": pod.node,
        "role": role,
        "group": pod.meta.labels.get(GROUP_LABEL, role),
        "container": container.name,
        "exitCode": end.exit_code,
    }
    return Evidence(
        evidence.cause, message, "pod", {name: detail for name, detail in details.items() if detail}
    )
