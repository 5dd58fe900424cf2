"""Reports problems with users' code: a missing ConfigMap, or a failure to fetch code in a pod."""

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
    """Report a missing ConfigMap with code, which prevents the creation of an attempt.

    Nothing is reported after an attempt was launched, because the attempt uses its own copy.
    """
    view, name = facts.view, facts.spec.code.config_map
    # The operator reads the code only if an attempt may be created, so otherwise `view.code` is
    # None even if the ConfigMap exists.
    if name is None or not may_launch(view.pipeline, facts.newest):
        return None
    # A pod that mounts a missing ConfigMap would never start.
    if view.code is None:
        return Block(Reason.CODE_MISSING, f"ConfigMap {name}")
    # Pods would start, but fail at their first import.
    if not view.code.has_modules:
        return Block(Reason.CODE_MISSING, f"ConfigMap {name} has no key that ends in .py")
    return None


def find_lost_code(scene: Scene) -> Evidence | None:
    """Return evidence of a failure to fetch code that waiting can't fix, if any.

    A head that can't fetch its code never runs a driver. KubeRay replaces a worker pod that can't
    fetch its code, which helps against temporary problems, but not against an invalid spec.
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
    """Return the failure of the fetching container, or None if a signal killed it."""
    # A signal from outside does not indicate a problem with the code, so a retry may help.
    evidence = None if find_signal(end.exit_code) else read_exit(end.exit_code)
    if evidence is None:
        return None
    outcome = find_outcome_line(end.message)
    # Without an outcome line, use the last line of the output, such as the error of a missing
    # command.
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
