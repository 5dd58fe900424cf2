"""With a wrong clock, an operator on a real API server acts as with a correct clock."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from api_server import ApiServer
from counting_proxy import CountingProxy, run_proxy
from kube_client import KubeClient
from operator_process import QUICK, OperatorProcess, run_skewed_operator
from operator_stories import NAME, STORIES, Performance, Story
from recordings import Json

HOUR, DAY = 3600.0, 86400.0
# Ordinary test runs play one case of each kind; `make clocks` plays all.
PLAYS_ALL = "STRANDLINE_ALL_CLOCKS" in os.environ
PATIENCE = 90.0
# Tolerance in seconds: the server's dates have whole seconds, and a start of the operator takes a
# few.
NEAR = 60.0


class Scene(NamedTuple):
    """A story with an operator behind a proxy, on a machine with a separate clock."""

    one: Performance
    operator: OperatorProcess
    proxy: CountingProxy
    clock: Path

    def go_on(self, is_so: Callable[[], object]) -> None:
        """Play until a condition holds."""
        end = time.monotonic() + PATIENCE
        while not is_so():
            assert self.operator.is_alive, self.operator.tail
            assert time.monotonic() < end, (self.one.status, self.operator.tail)
            asyncio.run(self.one.tick())
            time.sleep(0.1)

    def read_attempts(self) -> list[Json]:
        listed = self.one.client.list("CurationAttempt", self.one.namespace)
        return [dict(each.get("status", {})) for each in listed]


@contextmanager
def open_scene(
    server: ApiServer, folder: Path, story: Story, *, off: float, ahead: float | None
) -> Iterator[Scene]:
    clock = folder / "clock"
    clock.write_text(str(off))
    with closing(KubeClient(server.kubeconfig)) as client:
        one = Performance.open(server, client, story)
        # The retry delay leaves enough time to set the clock.
        client.patch("CurationPipeline", NAME, {"spec": {"retry": {"delay": "6s"}}}, one.namespace)
        with run_proxy(server.kubeconfig, folder) as proxy:
            proxy.ahead = ahead
            words = ("--namespaces", one.namespace)
            with run_skewed_operator(proxy.kubeconfig, folder, clock, *words, **QUICK) as operator:
                yield Scene(one, operator, proxy, clock)
                assert operator.faults == []


OFF = {"31 minutes ahead": 31 * 60.0, "an hour behind": -HOUR, "a day ahead": DAY}
CLOCKS = {
    f"{name}, {'dated' if is_dated else 'undated'}": (off, is_dated)
    for is_dated in (False, True)
    for name, off in OFF.items()
}


@pytest.mark.parametrize(
    ("off", "is_dated"),
    [*CLOCKS.values()][: None if PLAYS_ALL else 1],
    ids=[*CLOCKS][: None if PLAYS_ALL else 1],
)
def test_a_run_succeeds_with_a_wrong_clock(
    api_server: ApiServer, tmp_path: Path, off: float, *, is_dated: bool
) -> None:
    """Responses without dates are covered, too, because a proxy may remove the dates."""
    ahead = 0.0 if is_dated else None
    with open_scene(api_server, tmp_path, STORIES["goes well"], off=off, ahead=ahead) as scene:
        scene.go_on(lambda: scene.one.is_over)
        assert (scene.one.phase, scene.one.causes) == ("Succeeded", [""])
        (attempt,) = scene.read_attempts()
        for name in ("startTime", "endTime"):
            written = datetime.fromisoformat(attempt[name])
            assert abs((written - datetime.now(UTC)).total_seconds()) < NEAR, name


FAILS = Story(["b-app-failure", "s-k-success"], "Succeeded", ["ApplicationError", ""])
WRONG = {
    "the server's by a day": ("server", DAY),
    "the server's by an hour": ("server", HOUR),
    "the operator's by an hour": ("operator", HOUR),
}


@pytest.mark.parametrize(
    ("whose", "ahead"),
    [*WRONG.values()][: None if PLAYS_ALL else 1],
    ids=[*WRONG][: None if PLAYS_ALL else 1],
)
def test_a_clock_temporarily_ahead_delays_no_retry(
    api_server: ApiServer, tmp_path: Path, whose: str, ahead: float
) -> None:
    """Set a clock ahead during a run, and correct the clock before the retry.

    Without dates in the responses, the operator has only its own clock.
    """
    is_servers = whose == "server"
    off, dates = (0.0, ahead) if is_servers else (ahead, None)
    with open_scene(api_server, tmp_path, FAILS, off=off, ahead=dates) as scene:
        # The wrong clock decides when the retry follows.
        scene.go_on(lambda: scene.one.causes and scene.one.status.get("nextAttemptTime"))
        if is_servers:
            scene.proxy.ahead = 0.0
        else:
            scene.clock.write_text("0")
            scene.operator.kill()
            scene.operator.start()
        scene.go_on(lambda: scene.one.is_over)
        assert (scene.one.phase, len(scene.one.causes)) == ("Succeeded", 2)
