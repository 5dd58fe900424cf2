"""Plays recordings of a real KubeRay to the operator, once per process, and caches the results."""

from __future__ import annotations

from functools import cache
from typing import Any

from played_operator import Body, Scenario
from strandline_operator.model.limits import Limits

# Specs with a shorter start deadline. In these recordings the driver never runs, and the recorder
# stopped before the operator's default deadline.
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
    """Return the written statuses in order, each with its time, preceding step, and kind."""
    return [
        {
            "at": sighting.at,
            "after": sighting.after,
            "kind": sighting.kind,
            "generation": sighting.body["metadata"]["generation"],
            # Omit the config digest, which changes with each rendered pod field.
            "status": {
                key: value for key, value in sighting.body["status"].items() if key != "config"
            },
        }
        for sighting in play(name).sightings
    ]
