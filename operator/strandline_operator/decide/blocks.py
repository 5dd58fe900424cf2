"""What somebody outside has to change before anything goes on, in a reason and a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from strandline_api.reasons import Reason
from strandline_operator.decide.evidence import find_image_problem
from strandline_operator.decide.scene import Scene
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import Refusal, View

SILENCE = 60.0  # seconds; KubeRay looks at a new RayJob at once
FORBIDDEN, NOT_FOUND, TIMEOUT, TOO_MANY, SERVER_ERROR = 403, 404, 408, 429, 500


class Block(NamedTuple):
    """A reason, and what exactly."""

    reason: Reason
    detail: str = ""

    @property
    def message(self) -> str:
        """The sentence of the condition."""
        return self.reason.explain(self.detail)


def read_refusals(refusals: Iterable[Refusal]) -> Block | None:
    """The first thing that the API server refused; the claim's are told by its own condition."""
    for refusal in refusals:
        if refusal.what != Resource.CLAIM:
            return Block(_find_reason(refusal), describe_refusal(refusal))
    return None


def find_unread(view: View) -> Block | None:
    """What may not be read, of all that attempts are judged by; the claim is no part of that."""
    unread = [one for one in view.unread if one.what != Resource.CLAIM]
    if not unread:
        return None
    said = "; ".join(map(describe_refusal, unread))
    return Block(Reason.PERMISSION_DENIED, f"{said}. Until then nothing is decided.")


def describe_refusal(refusal: Refusal) -> str:
    """What was refused, in the server's words; of a read also by verb and kind."""
    if refusal.verb:
        return f"Its role lacks '{refusal.verb}' on {refusal.what}: {refusal.message}"
    return f"{refusal.what} {refusal.name}: {refusal.message}"


def is_quota(refusals: Iterable[Refusal]) -> Refusal | None:
    """A refusal because a quota is used up, of an attempt or its RayJob."""
    kinds = {Resource.ATTEMPT, Resource.RAYJOB, Resource.CONFIG_MAP}
    return next(
        (
            one
            for one in refusals
            if one.what in kinds and one.status == FORBIDDEN and "exceeded quota" in one.message
        ),
        None,
    )


def find_delay(scene: Scene, now: float) -> Block | None:
    """What keeps an attempt from running that has been launched; it may pass by itself."""
    rayjob = scene.rayjob
    if rayjob is None or rayjob.is_suspended or rayjob.deployment == "Running":
        return None
    if not rayjob.deployment and now - rayjob.meta.created > SILENCE:
        return Block(Reason.KUBERAY_SILENT, f"RayJob {rayjob.meta.name} has no status.")
    image = next(filter(None, map(find_image_problem, scene.pods)), None)
    if image is not None:
        return Block(Reason.IMAGE_NOT_PULLED, f"{image.message}.")
    unplaced = next((pod for pod in scene.pods if pod.unschedulable), None)
    if unplaced is None:
        return None
    is_held = "ReadWriteOncePod" in unplaced.unschedulable
    reason = Reason.CLAIM_IN_USE if is_held else Reason.UNSCHEDULABLE
    return Block(reason, f"Pod {unplaced.meta.name}: {unplaced.unschedulable}")


def _find_reason(refusal: Refusal) -> Reason:
    is_passing = refusal.status in {0, TIMEOUT, TOO_MANY}
    if is_passing or refusal.status >= SERVER_ERROR:
        return Reason.API_UNAVAILABLE
    if refusal.status == NOT_FOUND and refusal.what == Resource.RAYJOB:
        return Reason.KUBERAY_MISSING
    if refusal.status == FORBIDDEN:
        if "being terminated" in refusal.message:
            return Reason.NAMESPACE_TERMINATING
        is_right = bool(refusal.verb) or "cannot " in refusal.message
        return Reason.PERMISSION_DENIED if is_right else Reason.OBJECT_REFUSED
    return Reason.OBJECT_REFUSED
