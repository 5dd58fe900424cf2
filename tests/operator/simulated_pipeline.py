"""The pipeline of a simulated cluster, and the lineage system that the operator reports to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from strandline_api.status.enums import LineageState
from strandline_operator.model.plan import AttemptEnd

Body = dict[str, Any]
PIPELINE: Body = {
    "apiVersion": "strandline.dev/v1alpha1",
    "kind": "CurationPipeline",
    "metadata": {"name": "corpus", "namespace": "team", "uid": "uid-p", "generation": 1},
    "spec": {
        "source": {"use": "files"},
        "sink": {"use": "jsonl"},
        "retry": {"jitter": "none"},
        "ray": {"workerGroups": [{"name": "cpu", "resources": {"memory": "8Gi"}}]},
    },
}


@dataclass
class LineageListener:
    """A lineage system: the received ends, and the operator's memory of its reports.

    Attributes:
        answers: True if the system answers; otherwise, ends stay pending.
        ends: the received ends of attempts.
        states: states of reports by attempt number; an operator restart clears the states.
    """

    answers: bool = True
    ends: list[AttemptEnd] = field(default_factory=list)
    states: dict[int, LineageState] = field(default_factory=dict)

    def take(self, ends: Iterable[AttemptEnd]) -> None:
        """Take each end that this process has not sent."""
        for end in ends:
            if end.number not in self.states:
                self.ends.append(end)
            if self.answers:
                self.states[end.number] = LineageState.SENT


class KilledError(Exception):
    """The operator was killed."""


def list_templates(rayjob: Body) -> Iterator[tuple[str, Body]]:
    """Yield the name suffix and the template of each pod in a RayJob's cluster."""
    cluster = rayjob["spec"]["rayClusterSpec"]
    yield "head", cluster["headGroupSpec"]["template"]
    for group in cluster["workerGroupSpecs"]:
        yield group["groupName"], group["template"]
