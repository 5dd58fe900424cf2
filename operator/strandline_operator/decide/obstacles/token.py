"""Detects Ray clusters that require token authentication but have no token."""

from __future__ import annotations

from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_operator.decide.evidence.pods import find_last_line
from strandline_operator.decide.scene import Scene, is_head, role_of
from strandline_operator.model.objects import Pod, Termination
from strandline_operator.render.pods.templates import RAY_CONTAINERS

_ERROR = "AuthenticationError"
_MISSING = "no authentication token was found"
_ADVICE = (
    "set `ray.authOptions` to {mode: token}, and `ray.version` if you use your own image, or to "
    "{mode: disabled}"
)


def find_missing_token(scene: Scene) -> Evidence | None:
    """Return evidence of a head that failed to start because of a missing token, or None.

    KubeRay would keep replacing the head, and retrying can't help.
    """
    # Ray accepted the driver, so the token is valid.
    if scene.status.running_time is not None:
        return None
    return next((_describe(pod) for pod in scene.all_pods if is_head(pod) and _lacks(pod)), None)


def _lacks(pod: Pod) -> bool:
    ends = (end for it in pod.containers if it.name in RAY_CONTAINERS for end in it.ends)
    return any(map(_is_for_want, ends))


def _is_for_want(end: Termination) -> bool:
    line = find_last_line(end)
    return end.exit_code != 0 and _ERROR in line and _MISSING in line


def _describe(pod: Pod) -> Evidence:
    message = f"Ray requires a token, but {role_of(pod)} pod {pod.meta.name} has none; {_ADVICE}"
    return Evidence(
        Cause.INVALID_SPEC, message, "pod", {"pod": pod.meta.name, "role": role_of(pod)}
    )
