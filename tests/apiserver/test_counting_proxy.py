"""The proxy counts every call, forwards calls unchanged, and injects the requested failures.

The server behind the proxy is a stub, so these tests need no control plane.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from control_plane import write_kubeconfig
from counting_proxy import Call, CountingProxy, Disturber, Kind, Peace, Trouble, run_proxy
from http_stub import Stub, serve
from troubles import KillPoint, KillSchedule, RandomTroubles

PODS = "/api/v1/namespaces/team/pods"
STATUS = "/apis/strandline.dev/v1alpha1/namespaces/team/curationpipelines/corpus/status"
SHORT = aiohttp.ClientTimeout(total=0.5)


class Always:
    """A disturber that returns the same failure for every call."""

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    def choose(self, call: Call) -> Trouble | None:
        return self._trouble


class Scene:
    """A stub server, a proxy in front of the server, and a client of the proxy."""

    def __init__(self, stub: Stub, proxy: CountingProxy, session: aiohttp.ClientSession) -> None:
        self.stub = stub
        self.proxy = proxy
        self.session = session
        config = json.loads(proxy.kubeconfig.read_text(encoding="utf-8"))
        self.url = config["clusters"][0]["cluster"]["server"]

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, dict[str, str], str]:
        options.setdefault("timeout", SHORT)
        async with self.session.request(method, self.url + path, **options) as response:
            return response.status, dict(response.headers), await response.text()


@asynccontextmanager
async def open_scene(folder: Path, disturber: Disturber) -> AsyncIterator[Scene]:
    async with serve() as stub, aiohttp.ClientSession() as session:
        kubeconfig = folder / "kubeconfig"
        write_kubeconfig(kubeconfig, {"server": stub.url}, "secret")
        with run_proxy(kubeconfig, folder) as proxy:
            proxy.disturber = disturber
            yield Scene(stub, proxy, session)


Act = Callable[[Scene], Coroutine[Any, Any, None]]


def play(folder: Path, act: Act, disturber: Disturber | None = None) -> None:
    async def run() -> None:
        async with open_scene(folder, disturber or Peace()) as scene:
            await act(scene)

    asyncio.run(run())


def test_calls_are_counted_and_forwarded_as_the_servers_user(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.stub.answer({"items": []})
        scene.stub.answer({"kind": "Status", "code": 409}, 409)
        assert (await scene.ask("GET", f"{PODS}?limit=1"))[0] == 200
        status, _, text = await scene.ask("PUT", STATUS, json={"status": 1})
        assert (status, json.loads(text)["code"]) == (409, 409)
        listed, put = scene.stub.asked
        assert (listed.path, listed.query) == (PODS, {"limit": "1"})
        assert (put.path, put.body) == (STATUS, {"status": 1})
        assert {asked.headers["authorization"] for asked in scene.stub.asked} == {"Bearer secret"}
        assert [str(call) for call in scene.proxy.calls] == [
            "GET namespaces/team/pods",
            "PUT namespaces/team/curationpipelines/corpus/status",
        ]
        assert [(call.number, call.change) for call in scene.proxy.calls] == [(1, 0), (2, 1)]
        assert scene.proxy.changes == scene.proxy.calls[1:]

    play(tmp_path, act)


async def stream(request: web.Request, wait: float = 0.2) -> web.StreamResponse:
    """Stream three events, with pauses."""
    response = web.StreamResponse()
    await response.prepare(request)
    for number in range(3):
        await response.write(f"{number}\n".encode())
        await asyncio.sleep(wait)
    return response


def test_events_of_a_watch_are_streamed(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        gate = asyncio.Event()

        async def hold(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"first\n")
            await gate.wait()
            await response.write(b"second\n")
            return response

        scene.stub.answers.append(hold)
        async with scene.session.get(f"{scene.url}{PODS}?watch=true") as response:
            assert await response.content.readline() == b"first\n"
            gate.set()  # not reached if the proxy buffers
            assert await response.content.read() == b"second\n"
        assert [call.verb for call in scene.proxy.calls] == ["WATCH"]

    play(tmp_path, act)


def test_a_watch_breaks_off_in_the_middle(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.stub.answers.append(lambda request: stream(request, 5.0))
        async with scene.session.get(f"{scene.url}{PODS}?watch=true") as response:
            assert await response.content.readline() == b"0\n"
            with pytest.raises(aiohttp.ClientError):
                await response.content.read()

    play(tmp_path, act, Always(Trouble(Kind.DROPPED, seconds=0.3)))


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        (Kind.CONFLICT, 409, "Conflict"),
        (Kind.TOO_MANY, 429, "TooManyRequests"),
        (Kind.ERROR, 500, "InternalError"),
    ],
)
@pytest.mark.parametrize("is_late", [False, True])
def test_refusals_look_like_the_servers_own(
    kind: Kind, status: int, reason: str, is_late: bool, tmp_path: Path
) -> None:
    async def act(scene: Scene) -> None:
        scene.stub.answer({})
        answered, headers, text = await scene.ask("POST", PODS, json={})
        assert (answered, json.loads(text)["reason"]) == (status, reason)
        assert ("Retry-After" in headers) == (kind is Kind.TOO_MANY)
        assert len(scene.stub.asked) == is_late

    play(tmp_path, act, Always(Trouble(kind, is_late)))


@pytest.mark.parametrize(
    ("kind", "error"), [(Kind.TIMEOUT, TimeoutError), (Kind.CUT, aiohttp.ClientError)]
)
@pytest.mark.parametrize("is_late", [False, True])
def test_responses_can_be_withheld(
    kind: Kind, error: type[Exception], is_late: bool, tmp_path: Path
) -> None:
    async def act(scene: Scene) -> None:
        scene.stub.answer({})
        with pytest.raises(error):
            await scene.ask("POST", PODS, json={})
        assert len(scene.stub.asked) == is_late

    play(tmp_path, act, Always(Trouble(kind, is_late)))


def test_kills_come_at_their_counts_before_or_after_the_server_has_acted(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        killed: list[int] = []
        scene.proxy.kill = lambda: killed.append(len(scene.stub.asked))
        for method in ("GET", "POST", "POST", "GET", "POST"):
            scene.stub.answer({})
            try:
                await scene.ask(method, PODS)
            except TimeoutError:
                continue
        # The second change never reached the server. The third change did, before the kill.
        assert killed == [2, 4]
        assert [call.change for call, _ in scene.proxy.troubles] == [2, 3]

    play(tmp_path, act, KillSchedule([KillPoint(2), KillPoint(3, is_late=True)]))


def test_a_kill_may_count_reads_too() -> None:
    schedule = KillSchedule([KillPoint(2, of_all=True)])
    assert schedule.choose(Call(1, 1, "POST", "pods")) is None
    assert schedule.choose(Call(2, 0, "GET", "pods")) == Trouble(Kind.KILLED)
    assert schedule.left == 0


@given(st.text(), st.lists(st.sampled_from(["GET", "WATCH", "PUT"]), max_size=40))
def test_random_failures_fit_the_call_and_repeat_for_a_seed(seed: str, verbs: list[str]) -> None:
    calls = [Call(at, at if verb == "PUT" else 0, verb, "") for at, verb in enumerate(verbs, 1)]
    drawn = [[random_troubles.choose(call) for call in calls] for random_troubles in make_two(seed)]
    assert drawn[0] == drawn[1]
    for call, trouble in zip(calls, drawn[0], strict=True):
        assert trouble is not None
        assert (trouble.kind is Kind.DROPPED) == (call.verb == "WATCH")
        assert trouble.kind is not Kind.KILLED
        assert not (trouble.kind is Kind.CONFLICT and not call.change)
        assert not (trouble.is_late and trouble.kind in {Kind.CONFLICT, Kind.TOO_MANY})
    assert sum(one is not None and one.kind is Kind.TIMEOUT for one in drawn[0]) <= 1


def make_two(seed: str) -> list[RandomTroubles]:
    return [RandomTroubles(seed, rate=1.1) for _ in range(2)]
