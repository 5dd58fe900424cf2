"""Runs under random failures end like undisturbed runs.

Requests fail, watches break off, and the operator dies at random. Lost evidence may change the
cause of an end, but not the run: the operator skips no attempt, makes no attempt twice, and takes
the same next step.
"""

from __future__ import annotations

import asyncio
import random
from functools import cache
from typing import Any

import pytest

from fake_api import Call, KilledError
from played_operator import Operator, Scenario
from strandline_operator.cluster.errors import ApiError, Conflict, TooMany, Unavailable
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Resource

# Seeds, and the minimum number of failure kinds that each story meets with these seeds.
SEEDS = [
    pytest.param(range(2), 4, id="two"),
    pytest.param(range(4), 5, id="four", marks=pytest.mark.full),
]
KINDS = {"killed", "timeout", "429", "500", "409"}
SOONER = 0.5  # share of failures after a completed write, whose response is then lost
LATE = 0.5  # share of reads during which watches are behind
# Stories that cover every kind of end: driver report, pod, KubeRay, deletion, kill, and success.
STORIES: dict[str, set[str | None]] = {
    "s-k-success": {None},
    "s-k-exit-64": {"InvalidSpec"},
    "b-app-failure": {"ApplicationError"},
    "s-k-head-preempted-linger": {"Preempted", "Interrupted"},
    "s-k-head-deleted": {"Interrupted"},
    "c2-worker-container-oom-kernel": {"OOMKilled", "ApplicationError"},
    "k2-active-deadline-shutdown": {"DeadlineExceeded"},
    "s-k-rayjob-deleted": {"Interrupted", "Unknown"},
}


class Trouble:
    """Failures, drawn at random for each request."""

    def __init__(self, seed: str, rate: float) -> None:
        self.drawn = random.Random(seed)
        self.rate = rate
        self.kinds: set[str] = set()

    def before(self, call: Call) -> None:
        if call.verb in {"pull", "watch"} or self.drawn.random() > self.rate:
            return
        self.strike(call)

    def after(self, call: Call) -> None:
        if call.is_write and self.drawn.random() < self.rate * SOONER:
            self.strike(call)

    def strike(self, call: Call) -> None:
        kind = self.drawn.choice(["killed", "timeout", "429", "500", "409"])
        self.kinds.add(kind)
        if kind == "killed":
            raise KilledError
        if kind == "409" and call.is_write:
            raise Conflict(409, "Conflict", "the object has been modified")
        if kind == "429":
            raise TooMany(429, "TooManyRequests", "slow down", retry_after=1.0)
        raise Unavailable(0 if kind == "timeout" else 500, "", kind)


class Chaos(Scenario):
    """A scenario whose operator is killed and whose requests fail."""

    def __init__(self, recording: str, trouble: Trouble) -> None:
        super().__init__(recording, Limits())
        self.trouble = trouble
        self.made: list[str] = []
        self.jobs: set[str] = set()
        self.deaths = 0
        self.api.before.append(trouble.before)
        self.api.after.append(trouble.after)

    async def pass_once(self) -> None:
        try:
            await super().pass_once()
        except KilledError:
            self.deaths += 1
            self.operator = Operator(self.api, self.limits)
            self._wake_at = self.store.time + 1.0

    def tell(self) -> None:
        feed, drawn = self.operator.feed, self.trouble.drawn
        if drawn.random() < self.trouble.rate:
            # The watch broke off, and the next list shows only the remaining objects.
            feed.list(Resource.POD)
        if drawn.random() < self.trouble.rate:
            feed.disconnect()
        elif drawn.random() < LATE and all(feed.shown.values()):
            # Kinds have separate streams with separate delays.
            for resource in feed.kinds:
                feed.stream(resource, drawn.randrange(4))
            return
        super().tell()


@cache
def play_in_peace(name: str) -> dict[str, Any]:
    scenario = Scenario(name, Limits())
    scenario.run()
    status: dict[str, Any] = scenario.attempt["status"]
    return status


def count_made(scenario: Scenario, resource: Resource) -> dict[str, int]:
    uids: dict[str, set[str]] = {}
    for change in scenario.store.history:
        if change.resource is resource:
            metadata = change.body["metadata"]
            uids.setdefault(metadata["name"], set()).add(metadata["uid"])
    return {name: len(found) for name, found in uids.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "fewest"), SEEDS)
@pytest.mark.parametrize("name", STORIES)
def test_a_run_under_failures_ends_like_an_undisturbed_run(
    name: str, seeds: range, fewest: int
) -> None:
    kinds, deaths = set[str](), 0
    for seed in seeds:
        trouble = Trouble(f"{name} {seed}", rate=0.05)
        scenario = Chaos(name, trouble)
        scenario.run()
        kinds |= trouble.kinds
        deaths += scenario.deaths
        status = scenario.attempt["status"]
        assert status["isFrozen"], seed
        assert status.get("cause") in STORIES[name], (seed, status)
        assert scenario.most_attempts == 1
        assert set(count_made(scenario, Resource.RAYJOB).values()) == {1}, seed
        assert set(count_made(scenario, Resource.ATTEMPT).values()) == {1}, seed
        asyncio.run(calm_down(scenario))
        pipeline = scenario.pipeline["status"]
        assert pipeline["retries"]["through"] == 1, seed
        assert [attempt["number"] for attempt in pipeline["attempts"]] == [1], seed
    assert play_in_peace(name).get("cause") in STORIES[name]
    assert kinds <= KINDS
    assert len(kinds) >= fewest
    assert deaths


async def calm_down(scenario: Chaos) -> None:
    """End the trouble, and finish all pending work."""
    scenario.api.before.clear()
    scenario.api.after.clear()
    scenario.trouble.rate = 0.0
    await scenario.settle()


def test_every_error_class_is_a_server_error() -> None:
    trouble = Trouble("seed", rate=1.0)
    for _ in range(50):
        try:
            trouble.before(Call(1, "create", Resource.RAYJOB, "corpus-1"))
        except (ApiError, KilledError):
            continue
        raise AssertionError("nothing went wrong")
