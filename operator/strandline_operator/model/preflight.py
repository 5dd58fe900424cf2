"""The fields of a preflight check's Job that decisions need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strandline_operator.model.objects import Json, Meta, Pod, read_list, read_mapping


@dataclass(frozen=True, slots=True)
class PreflightJob:
    """The Job with the name of a pipeline's preflight check, and its pod.

    Attributes:
        failure: why the whole Job failed, such as its deadline; empty if it has not failed.
        pod: the Job's pod, or None if there is none yet.
        image: image of the pod, with its digest; empty if unknown.
        unread: why the Job may not be read. If set, no other field is known.
    """

    meta: Meta
    failure: str = ""
    pod: Pod | None = None
    image: str = ""
    unread: str = ""

    @classmethod
    def read(cls, body: Json, pods: Sequence[Json]) -> PreflightJob:
        """Return a preflight Job from a Job object and the objects of its pods."""
        conditions = read_list(read_mapping(body.get("status")).get("conditions"))
        failures = (each for each in map(read_mapping, conditions) if each.get("type") == "Failed")
        condition = next((each for each in failures if each.get("status") == "True"), {})
        failure = condition.get("message") or condition.get("reason") or ""
        pod = pods[0] if pods else None
        return cls(
            Meta.read(body),
            str(failure),
            None if pod is None else Pod.read(pod),
            "" if pod is None else _find_image(pod),
        )


def _find_image(pod: Json) -> str:
    states = read_list(read_mapping(pod.get("status")).get("containerStatuses"))
    images = (read_mapping(state).get("imageID") for state in states)
    return next((image for image in images if isinstance(image, str)), "")
