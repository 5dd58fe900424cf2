"""`strandline leave`: how a worker's pod finds the driver, and how long the pod waits."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_server import execute_interpreter, execute_strandline
from strandline.cli.commands.runs import leave
from strandline.cli.commands.runs.leave import (
    PAUSE_SECONDS,
    SPARE_SECONDS,
    find_head,
    wait_until_left,
)


class Clock:
    """A clock that advances during sleeps, and a driver that has pending work."""

    def __init__(self, answers: list[int | None]) -> None:
        self.now = 0.0
        self.answers = answers
        self.asked: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def ask(self, left: float) -> int | None:
        self.asked.append(left)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def wait(self, seconds: float, *, waits: bool = True) -> bool:
        return wait_until_left(self.ask, seconds, lambda: self.now, self.sleep, waits=waits)


@given(answers=st.lists(st.integers(1, 9), max_size=20))
def test_law_leave_waits_until_nothing_is_pending(answers: list[int]) -> None:
    clock = Clock([*answers, 0])
    assert clock.wait(60.0)
    assert clock.now == PAUSE_SECONDS * len(answers)


@given(seconds=st.floats(0.0, 300.0))
def test_law_leave_ends_before_the_pod(seconds: float) -> None:
    clock = Clock([1])
    assert not clock.wait(seconds)
    assert clock.now <= max(0.0, seconds - SPARE_SECONDS)
    assert clock.asked == sorted(clock.asked, reverse=True)


def test_an_unresponsive_driver_is_not_awaited() -> None:
    clock = Clock([2, None])
    assert not clock.wait(60.0)
    assert len(clock.asked) == 2


def test_without_a_wait_one_request_is_sent() -> None:
    clock = Clock([2])
    assert not clock.wait(60.0, waits=False)
    assert len(clock.asked) == 1


@pytest.mark.parametrize(
    ("environment", "host"),
    [
        ({}, None),
        ({"FQ_RAY_IP": "head.ns.svc.cluster.local", "RAY_IP": "head"}, "head.ns.svc.cluster.local"),
        ({"RAY_IP": "head"}, "head"),
        ({"RAY_ADDRESS": "head.ns.svc:6379"}, "head.ns.svc"),
        ({"RAY_ADDRESS": "[fd00::1]:6379"}, "fd00::1"),
        ({"RAY_ADDRESS": "auto"}, None),
    ],
)
def test_the_head_is_found_by_kuberays_variables(
    environment: Mapping[str, str], host: str | None
) -> None:
    assert find_head(environment) == host


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {name: text for name, text in os.environ.items() if "RAY" not in name}
    return execute_strandline("leave", *words, env={**known, **environment})


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"FQ_RAY_IP": "127.0.0.1"},
        {"FQ_RAY_IP": "127.0.0.1", "STRANDLINE_NOTICE_TOKEN": "t"},
        {"FQ_RAY_IP": "nowhere.invalid", "STRANDLINE_NOTICE_TOKEN": "t"},
    ],
)
def test_law_leave_always_lets_the_pod_end(environment: dict[str, str]) -> None:
    done = run("--wait", "--port", "1", "--seconds", "30", **environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_lost_head_is_not_awaited_but_a_busy_head_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leave, "_CONNECT_SECONDS", 0.2)
    monkeypatch.setattr(leave, "_ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as waiting:
        host, port = listener.getsockname()
        assert leave.post(host, port, "token", {}) == 1
        # Nothing accepts connections, so connections beyond the queue get no answer, as from a lost
        # node.
        for _ in range(4):
            caller = waiting.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex((host, port))
        assert leave.post(host, port, "token", {}) is None


def test_leave_loads_neither_ray_nor_arrow() -> None:
    program = (
        "import sys; import strandline.cli.commands.runs.leave; "
        "print(*{'ray', 'pyarrow', 'lmdb'} & set(sys.modules))"
    )
    done = execute_interpreter(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""
