"""Trials: a story on a real server, with an operator that is killed at chosen calls.

    ground = Ground(server, watch, folder)
    finding = ground.carry_out(Trial("goes well", [KillPoint(3)], seed="1"))
    finding.faults              # sentences; empty if the end equals the undisturbed end

Each story first runs once without kills. Every other run must reach the same end.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from api_server import ApiServer
from counting_proxy import CountingProxy, Disturber, run_proxy
from kube_client import KubeClient
from operator_process import QUICK, OperatorProcess, run_operator
from operator_stories import NAME, STORIES, Performance
from overlap_watch import OverlapWatch
from recordings import Json
from troubles import KillPoint, KillSchedule

# Wait longer for outcomes: with many concurrent stories the player's last report comes late.
LIMITS = {**QUICK, "STRANDLINE_OUTCOME": "3"}
PATIENCE = 480.0  # seconds; reached only if a story fails
PAUSE = 0.02
# The number of steps that KubeRay advances while the operator is down is drawn from these.
MEANWHILE = (0, 0, 0, 2, 6)
# After each start, KubeRay waits until the operator has made this number of calls, and so has read
# its pipelines. Steps played here in seconds took minutes with a real KubeRay.
FIRST_CALLS = 12


@dataclass(frozen=True, slots=True)
class Trial:
    """A story and the kills of its operator."""

    story: str
    points: Sequence[KillPoint]
    seed: str

    def __str__(self) -> str:
        """Return the story and its kill points."""
        return f"{self.story}: {', '.join(map(str, self.points)) or 'in peace'}"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a trial.

    Attributes:
        calls, changes: numbers of all calls of the operator and of the changing calls.
        kills: number of kills that happened.
        faults: sentences about wrong results.
    """

    trial: Trial
    end: Json
    calls: int
    changes: int
    kills: int
    seconds: float
    faults: Sequence[str]


@dataclass(slots=True)
class Ground:
    """The environment of trials, several at a time."""

    server: ApiServer
    watch: OverlapWatch
    folder: Path
    peace: dict[str, Finding] = field(default_factory=dict)

    def carry_out(self, trial: Trial) -> Finding:
        """Run a story."""
        begun = time.monotonic()
        folder = self.folder / trial.seed
        folder.mkdir(parents=True)
        with closing(KubeClient(self.server.kubeconfig)) as client:
            performance = Performance.open(self.server, client, STORIES[trial.story])
            schedule = KillSchedule(trial.points)
            faults, proxy = tell(self.server, folder, performance, schedule, trial.seed)
            self.watch.catch_up()
            faults += judge(performance, self.watch, self.peace.get(trial.story))
            end = performance.end
            client.delete("Namespace", performance.namespace)
        calls, changes = len(proxy.calls), len(proxy.changes)
        kills, seconds = len(proxy.troubles), time.monotonic() - begun
        return Finding(trial, end, calls, changes, kills, seconds, faults)


def tell(
    server: ApiServer, folder: Path, performance: Performance, disturber: Disturber, seed: str
) -> tuple[list[str], CountingProxy]:
    """Run a story to its end. Return the operator's faults, and the proxy with its calls."""
    place = ("--namespaces", performance.namespace)
    with run_proxy(server.kubeconfig, folder) as proxy:
        proxy.disturber = disturber
        with run_operator(proxy.kubeconfig, folder, *place, **LIMITS) as operator:
            proxy.kill = operator.strike
            try:
                asyncio.run(play(performance, operator, proxy, random.Random(seed)))
                operator.stop()
            except (AssertionError, LookupError) as error:
                return [str(error)], proxy
        return [str(line["error"]) for line in operator.faults], proxy


async def play(
    performance: Performance, operator: OperatorProcess, proxy: CountingProxy, drawn: random.Random
) -> None:
    """Play a story to its end, and restart the operator after every kill.

    Raises:
        AssertionError: if the story does not end in time.
    """
    end, resume_at = time.monotonic() + PATIENCE, FIRST_CALLS
    while not performance.is_over:
        assert time.monotonic() < end, f"{performance.phase}: {performance.status}\n{operator.tail}"
        if not operator.is_alive:
            for _ in range(drawn.choice(MEANWHILE)):
                await performance.tick()
            resume_at = len(proxy.calls) + FIRST_CALLS
            operator.start()
        elif len(proxy.calls) >= resume_at:
            await performance.tick()
        else:
            performance.look()
        await asyncio.sleep(PAUSE)


def judge(performance: Performance, watch: OverlapWatch, peace: Finding | None) -> list[str]:
    """Return the faults at the end of a story."""
    end, story = performance.end, performance.story
    faults = watch.list_overlaps(performance.namespace)
    if end["phase"] != story.phase:
        faults.append(f"it came to {end['phase']}, not {story.phase}")
    if not match_causes(end["causes"], story.causes):
        faults.append(f"the causes are {end['causes']}, not {list(story.causes)}")
    once = {f"{NAME}-{number}": 1 for number in range(1, len(story.programme) + 1)}
    for kind in ("CurationAttempt", "RayJob"):
        made = watch.list_names(kind, performance.namespace)
        if made != once:
            faults.append(f"{kind}s that were made: {made}")
    if peace is not None:
        faults += compare(end, peace.end)
    return faults


def match_causes(causes: Sequence[str], allowed: Sequence[str]) -> bool:
    """Return True if each cause is among the allowed causes of its attempt."""
    pairs = zip(causes, allowed, strict=False)
    return len(causes) == len(allowed) and all(pair in each.split("|") for pair, each in pairs)


def compare(end: Json, peace: Json) -> list[str]:
    """Return the differences from the end of the undisturbed story.

    A kill may lose the best evidence. The attempt then has another allowed cause, which may charge
    another retry budget and change the next memory size, but is charged once, too.
    """
    if end["causes"] != peace["causes"]:
        end, peace = (sum_up(one) for one in (end, peace))
    return [
        f"{name} is {end[name]}, in peace it was {peace[name]}"
        for name in peace
        if end[name] != peace[name]
    ]


def sum_up(end: Json) -> Json:
    """Return the parts of an end that do not depend on causes."""
    retries = dict(end["retries"] or {})
    spent = retries.pop("retries", 0) + retries.pop("disruptions", 0)
    retries.pop("cause", None)
    names = ("phase", "attempt", "run", "conditions", "numbers", "left", "claim")
    return {**{name: end[name] for name in names}, "retries": {**retries, "spent": spent}}
