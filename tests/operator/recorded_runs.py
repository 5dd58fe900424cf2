"""Each recording of a real KubeRay, played to the operator once in a process, and what it wrote."""

from __future__ import annotations

from functools import cache
from typing import Any

from played_operator import Body, Scenario
from strandline_operator.model.limits import Limits

# The driver never gets to run, and the recorder went away before the operator's own patience ends.
SPECS: dict[str, dict[str, Any]] = {
    "i-unschedulable": {"deadlines": {"preRunning": "60s"}},
    "v-no-ray-version": {"deadlines": {"preRunning": "90s"}},
}


@cache
def play(name: str) -> Scenario:
    """Play a recording to its end."""
    scenario = Scenario(name, Limits(), **SPECS.get(name, {}))
    scenario.run()
    return scenario


def list_statuses(name: str) -> list[Body]:
    """Return the statuses that were written, in their order: when, after what, of what kind."""
    return [
        {
            "at": sighting.at,
            "after": sighting.after,
            "kind": sighting.kind,
            "generation": sighting.body["metadata"]["generation"],
            # Without what changes with each field of a pod that is rendered.
            "status": {
                key: value for key, value in sighting.body["status"].items() if key != "config"
            },
        }
        for sighting in play(name).sightings
    ]
