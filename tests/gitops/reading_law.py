"""How Flux and Argo CD should interpret each status.

The expected result is derived from phases and events, which people read. The tools evaluate
conditions, so the tests detect contradictions between the two. A running pipeline is `Current` in
Flux and `Progressing` in Argo CD, as is a Kubernetes Job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from recorded_runs import list_statuses

Body = dict[str, Any]
Pair = tuple[str, str]

GONE: Pair = ("Terminating", "Progressing")
UNSEEN: Pair = ("InProgress", "Progressing")
ENDS: dict[str, Pair] = {"Succeeded": ("Current", "Healthy"), "Failed": ("Failed", "Degraded")}


@dataclass(frozen=True, slots=True)
class Sight:
    """A status from a recording, and its expected reading."""

    name: str
    body: Body
    expected: Pair


@cache
def read_sights(scenario: str) -> tuple[Sight, ...]:
    """Return the statuses of a recording in the order of their writes."""
    return tuple(_expect(scenario, list_statuses(scenario)))


def _expect(scenario: str, documents: list[Body]) -> Iterator[Sight]:
    has_begun = False
    for number, document in enumerate(documents):
        status = document["status"]
        if document["kind"] == "CurationAttempt":
            has_begun = has_begun or "runningTime" in status or status["isFrozen"]
            expected = expect_attempt(status)
        else:
            expected = expect_pipeline(status["phase"], has_begun=has_begun)
        yield Sight(f"{scenario} {number} {document['kind']}", _spell(document), expected)


def expect_pipeline(phase: str, *, has_begun: bool) -> Pair:
    """Return the expected reading of a valid pipeline; `has_begun` after an attempt has run."""
    if phase in ENDS:
        return ENDS[phase]
    flux = "Current" if has_begun or phase == "Suspended" else "InProgress"
    return flux, "Suspended" if phase == "Suspended" else "Progressing"


def expect_attempt(status: Body) -> Pair:
    """Return the expected reading of an attempt, for which Flux never waits."""
    if status["phase"] == "Queued":
        return "Current", "Suspended"
    return "Current", "Healthy" if status["isFrozen"] else "Progressing"


def expect_rayjob(deployment: str, job: str, *, is_suspended: bool, is_owned: bool) -> str:
    """Return Argo CD's expected reading of a RayJob; `is_owned` if an attempt owns the RayJob."""
    if deployment in {"Complete", "Failed", "ValidationFailed"}:
        has_succeeded = (deployment, job) == ("Complete", "SUCCEEDED")
        return "Healthy" if has_succeeded or is_owned else "Degraded"
    if is_suspended or deployment in {"Suspended", "Suspending"}:
        return "Suspended"
    return "Progressing"


def _spell(document: Body) -> Body:
    return {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": document["kind"],
        "metadata": {
            "name": "corpus",
            "namespace": "team",
            "generation": document["generation"],
        },
        "status": document["status"],
    }
