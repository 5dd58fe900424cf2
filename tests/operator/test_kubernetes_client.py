"""The requests that the Kubernetes client sends to a local server, and how it handles responses."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import ClientTimeout, web
from kubernetes.aio.client.configuration import Configuration

from http_stub import Stub, serve
from strandline_operator.cluster import client
from strandline_operator.cluster.api import Scope
from strandline_operator.cluster.client import KubernetesApi
from strandline_operator.cluster.connection import (
    NoClusterError,
    find_proxy,
    load_configuration,
    read_credentials,
)
from strandline_operator.cluster.errors import ApiError, Conflict, Gone, TooMany, Unavailable
from strandline_operator.model.plan import Resource

Story = Callable[[Stub, KubernetesApi], Awaitable[None]]
STREAMS, PATIENCE = 120, 20.0
FAILURE = {"kind": "Status", "status": "Failure"}


def tell(story: Story, notes: list[tuple[str, str, int]] | None = None) -> None:
    """Run a story with a stub server and a client connected to it."""

    async def run() -> None:
        async with serve() as stub:
            configuration = Configuration(host=stub.url)
            configuration.api_key["BearerToken"] = "Bearer secret"
            noted = [] if notes is None else notes
            api = KubernetesApi(
                configuration, agent="tests/1", note=lambda *note: noted.append(note)
            )
            try:
                await story(stub, api)
            finally:
                await api.close()

    asyncio.run(run())


def test_a_request_has_credentials_and_accepts_json() -> None:
    async def story(stub: Stub, api: KubernetesApi) -> None:
        stub.answer({"kind": "Pod", "spec": {"new": "field"}})
        assert await api.get(Resource.POD, "team", "a") == {"kind": "Pod", "spec": {"new": "field"}}
        (asked,) = stub.asked
        assert (asked.method, asked.path) == ("GET", "/api/v1/namespaces/team/pods/a")
        assert asked.headers["authorization"] == "Bearer secret"
        assert asked.headers["user-agent"] == "tests/1"
        assert asked.headers["accept"] == "application/json"

    notes: list[tuple[str, str, int]] = []
    tell(story, notes)
    assert notes == [("GET", "pods", 200)]


def test_a_missing_object_is_none() -> None:
    async def story(stub: Stub, api: KubernetesApi) -> None:
        stub.answer(FAILURE | {"reason": "NotFound", "code": 404}, 404)
        assert await api.get(Resource.POD, "team", "a") is None

    tell(story)


def test_a_list_is_read_page_by_page() -> None:
    async def story(stub: Stub, api: KubernetesApi) -> None:
        stub.answer({"items": [{"n": 1}], "metadata": {"continue": "more", "resourceVersion": "7"}})
        stub.answer({"items": [{"n": 2}], "metadata": {"resourceVersion": "7"}})
        pages = [page async for page in api.list_pages(Scope(Resource.POD, None, "a=b"))]
        assert [item["n"] for page in pages for item in page.items] == [1, 2]
        assert {page.version for page in pages} == {"7"}
        first, second = stub.asked
        assert first.query == {"limit": "500", "labelSelector": "a=b"}
        assert second.query == {"limit": "500", "labelSelector": "a=b", "continue": "more"}

    tell(story)


def test_writes_send_the_given_bodies() -> None:
    async def story(stub: Stub, api: KubernetesApi) -> None:
        for _ in range(5):
            stub.answer({"metadata": {"name": "a"}})
        await api.create(Resource.CLAIM, "team", {"kind": "x"})
        await api.replace_status(Resource.PIPELINE, "team", "a", {"status": {}})
        await api.patch(Resource.PIPELINE, "team", "a", {"metadata": {}})
        await api.delete(Resource.POD, "team", "a", "uid-1", 0)
        await api.delete(Resource.POD, "team", "a", "uid-1")
        methods = [asked.method for asked in stub.asked]
        assert methods == ["POST", "PUT", "PATCH", "DELETE", "DELETE"]
        assert stub.asked[1].path.endswith("/curationpipelines/a/status")
        assert stub.asked[2].headers["content-type"] == "application/merge-patch+json"
        assert [asked.body for asked in stub.asked[:3]] == [
            {"kind": "x"},
            {"status": {}},
            {"metadata": {}},
        ]
        assert stub.asked[3].body["preconditions"] == {"uid": "uid-1"}
        assert stub.asked[3].body["propagationPolicy"] == "Background"
        assert stub.asked[3].body["gracePeriodSeconds"] == 0
        assert "gracePeriodSeconds" not in stub.asked[4].body

    tell(story)


def test_a_strict_creation_requests_strict_validation() -> None:
    async def story(stub: Stub, api: KubernetesApi) -> None:
        for _ in range(2):
            stub.answer({"metadata": {"name": "a"}})
        await api.create(Resource.RAYJOB, "team", {}, is_strict=True)
        await api.create(Resource.RAYJOB, "team", {})
        assert [asked.query for asked in stub.asked] == [{"fieldValidation": "Strict"}, {}]

    tell(story)


@pytest.mark.parametrize(
    ("status", "body", "headers", "kind", "wait"),
    [
        (409, {"reason": "AlreadyExists", "message": "it exists"}, {}, Conflict, None),
        (429, {"reason": "TooManyRequests"}, {"Retry_After": "7"}, TooMany, 7.0),
        (429, {"details": {"retryAfterSeconds": 3}}, {}, TooMany, 3.0),
        (503, {}, {"Retry_After": "soon"}, Unavailable, None),
        (500, [], {}, Unavailable, None),
    ],
)
def test_refusals_have_distinct_errors(
    status: int, body: object, headers: dict[str, str], kind: type[ApiError], wait: float | None
) -> None:
    async def story(stub: Stub, api: KubernetesApi) -> None:
        stub.answer(body, status, **headers)
        with pytest.raises(kind) as raised:
            await api.create(Resource.POD, "team", {})
        assert raised.value.status == status
        assert raised.value.retry_after == wait

    notes: list[tuple[str, str, int]] = []
    tell(story, notes)
    assert notes == [("POST", "pods", status)]


def test_an_invalid_json_page_is_an_ordinary_error() -> None:
    async def story(stub: Stub, api: KubernetesApi) -> None:
        stub.answers.append(web.Response(text="<html>", status=502))
        stub.answers.append(web.Response(text="<html>"))
        for said in ("<html>", "not JSON"):
            with pytest.raises(Unavailable, match=said):
                await api.get(Resource.POD, "team", "a")

    tell(story)


def test_an_unreachable_server_is_unavailable() -> None:
    async def story(stub: Stub, api: KubernetesApi) -> None:
        api._client.configuration.host = "http://127.0.0.1:1"
        with pytest.raises(Unavailable) as raised:
            await api.get(Resource.POD, "team", "a")
        assert raised.value.status == 0

    notes: list[tuple[str, str, int]] = []
    tell(story, notes)
    assert notes == [("GET", "pods", 0)]


def stream(*events: object) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for event in events:
            await response.write(json.dumps(event).encode() + b"\n")
        return response

    return answer


def test_a_watch_yields_events_until_the_server_ends_it() -> None:
    events = [{"type": "ADDED", "object": {"n": 1}}, {"type": "BOOKMARK", "object": {}}]

    async def story(stub: Stub, api: KubernetesApi) -> None:
        stub.answers.append(stream(*events))
        seen = [event async for event in api.watch(Scope(Resource.POD, None, "a"), "5")]
        assert seen == [{"type": "OPEN"}, *events]
        (asked,) = stub.asked
        assert asked.path == "/api/v1/pods"
        assert asked.query["resourceVersion"] == "5"
        assert (asked.query["watch"], asked.query["allowWatchBookmarks"]) == ("true", "true")
        assert asked.query["labelSelector"] == "a"

    tell(story)


def test_an_expired_version_raises_gone_in_both_response_forms() -> None:
    status = FAILURE | {"code": 410, "reason": "Expired", "message": "too old"}

    async def story(stub: Stub, api: KubernetesApi) -> None:
        stub.answers.append(stream({"type": "ERROR", "object": status}))
        stub.answer(status, 410)
        for _ in range(2):
            with pytest.raises(Gone, match="too old"):
                _ = [event async for event in api.watch(Scope(Resource.POD, None), "5")]

    tell(story)


def test_a_silent_stream_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_STREAM", ClientTimeout(sock_read=0.05))
    release = asyncio.Event()

    async def stall(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type": "ADDED", "object": {}}\n')
        await release.wait()
        return response

    async def story(stub: Stub, api: KubernetesApi) -> None:
        stub.answers.append(stall)
        events = api.watch(Scope(Resource.POD, None), "5")
        assert [(await anext(events))["type"] for _ in range(2)] == ["OPEN", "ADDED"]
        with pytest.raises(Unavailable, match="no answer"):
            await anext(events)
        release.set()

    tell(story)


def test_streams_of_many_namespaces_leave_room_for_requests() -> None:
    """Five streams in each of twenty namespaces do not exhaust the connection pool."""

    async def hold(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()
        return response

    async def story(stub: Stub, api: KubernetesApi) -> None:
        stub.answers += [hold] * STREAMS
        streams = [api.watch(Scope(Resource.POD, f"team-{n}"), "1") for n in range(STREAMS)]
        async with asyncio.timeout(PATIENCE):
            opened = await asyncio.gather(*(anext(stream) for stream in streams))
            stub.answer({"kind": "Pod"})
            assert await api.get(Resource.POD, "team", "a") == {"kind": "Pod"}
        assert opened == [{"type": "OPEN"}] * STREAMS
        for stream in streams:
            assert isinstance(stream, AsyncGenerator)
            await stream.aclose()

    tell(story)


def test_a_log_is_the_tail_of_one_container() -> None:
    async def story(stub: Stub, api: KubernetesApi) -> None:
        stub.answers += [web.Response(body=b"a\xff\n"), web.Response(text="")]
        assert await api.read_log("team", "pod", "main", 20) == "a�\n"
        assert await api.read_log("team", "pod", "", 20) == ""
        assert stub.asked[0].query == {
            "tailLines": "20",
            "limitBytes": "262144",
            "container": "main",
        }
        assert "container" not in stub.asked[1].query

    tell(story)


def test_a_log_with_long_lines_is_read_from_its_end() -> None:
    async def story(stub: Stub, api: KubernetesApi) -> None:
        last = "password\n" + "x" * 60_000 + "\nlast words\n"
        answers = ["x" * 262_144, "y" * 262_144, "z" * 100_000 + last]
        stub.answers += [web.Response(text=text) for text in answers]
        assert await api.read_log("team", "pod", "", 200) == "x" * 60_000 + "\nlast words\n"
        assert [asked.query["tailLines"] for asked in stub.asked] == ["200", "25", "3"]

    tell(story)


def test_a_last_line_longer_than_the_limit_causes_no_loop() -> None:
    async def story(stub: Stub, api: KubernetesApi) -> None:
        stub.answers += [web.Response(text="x" * 262_144) for _ in range(2)]
        assert await api.read_log("team", "pod", "", 8) == "x" * 65_536
        assert [asked.query["tailLines"] for asked in stub.asked] == ["8", "1"]

    tell(story)


def test_a_list_with_expired_pages_is_requested_again_in_full() -> None:
    async def story(stub: Stub, api: KubernetesApi) -> None:
        stub.answer({"items": [{"n": 1}], "metadata": {"continue": "more", "resourceVersion": "7"}})
        stub.answer(FAILURE | {"reason": "Expired", "code": 410}, 410)
        stub.answer({"items": [{"n": 1}, {"n": 2}], "metadata": {"resourceVersion": "9"}})
        found = await api.list_all(Resource.POD, None, "a=b")
        assert [item["n"] for item in found] == [1, 2]
        assert [sorted(asked.query) for asked in stub.asked] == [
            ["labelSelector", "limit"],
            ["continue", "labelSelector", "limit"],
            ["labelSelector"],
        ]

    tell(story)


def test_a_compressed_driver_response_is_not_decompressed() -> None:
    async def story(stub: Stub, api: KubernetesApi) -> None:
        packed = gzip.compress(b'{"finished": 1}')
        stub.answers.append(web.Response(body=packed, headers={"Content-Encoding": "gzip"}))
        with pytest.raises(ApiError, match="not JSON"):
            await api.pull(f"{stub.url}/progress")

    tell(story)


def test_a_request_to_a_driver_sends_a_given_token() -> None:
    async def story(stub: Stub, api: KubernetesApi) -> None:
        for _ in range(2):
            stub.answer({})
        await api.pull(f"{stub.url}/progress")
        await api.pull(f"{stub.url}/outcome", "secret")
        sent = [asked.headers.get("strandline-token") for asked in stub.asked]
        assert sent == [None, "secret"]

    tell(story)


def test_driver_responses_are_limited_and_validated() -> None:
    async def story(stub: Stub, api: KubernetesApi) -> None:
        stub.answer({"finished": 1})
        stub.answer({}, 404)
        stub.answers.append(web.Response(status=302, headers={"Location": "/elsewhere"}))
        stub.answers.append(web.Response(text="nonsense"))
        stub.answers.append(web.Response(text="[" * 100_000))
        stub.answers.append(web.Response(text=f'"{"x" * 300_000}"'))
        url = f"{stub.url}/progress"
        assert await api.pull(url) == {"finished": 1}
        assert await api.pull(url) is None
        assert await api.pull(url) is None
        for _ in range(3):
            with pytest.raises(ApiError, match="not JSON"):
                await api.pull(url)
        with pytest.raises(Unavailable):
            await api.pull("http://127.0.0.1:1/progress")

    tell(story)


KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: it
contexts: [{{name: it, context: {{cluster: it, user: it}}}}]
clusters: [{{name: it, cluster: {{server: "{server}"}}}}]
users: [{{name: it, user: {{token: {token}}}}}]
"""


def spell_config(stub: Stub, token: str) -> str:
    return KUBECONFIG.format(server=stub.url, token=token)


def test_expired_credentials_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(path))

    async def run() -> None:
        async with serve() as stub:
            path.write_text(spell_config(stub, "old"))
            configuration = await load_configuration()
            assert (await read_credentials(configuration)).authorization == "Bearer old"
            api = KubernetesApi(configuration, agent="tests/1")
            try:
                path.write_text(spell_config(stub, "new"))
                stub.answer({}, 401)
                stub.answer({})
                with pytest.raises(Unavailable):
                    await api.get(Resource.POD, "team", "a")
                await api.get(Resource.POD, "team", "a")
            finally:
                await api.close()
            tokens = [asked.headers["authorization"] for asked in stub.asked]
            assert tokens == ["Bearer old", "Bearer new"]

    asyncio.run(run())


@pytest.mark.parametrize("text", [None, "", "kind: [", "kind: Config"])
def test_a_missing_cluster_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(path))

    with pytest.raises(
        NoClusterError, match=r"^no usable cluster configuration: .* in a pod"
    ) as said:
        asyncio.run(load_configuration())

    assert "\n" not in str(said.value)


@pytest.mark.parametrize(
    ("server", "variables", "proxy"),
    [
        ("https://example.com:6443", {}, None),
        (
            "https://example.com:6443",
            {"HTTPS_PROXY": "http://proxy.example.com:3128"},
            "http://proxy.example.com:3128",
        ),
        (
            "https://example.com:6443",
            {"https_proxy": "http://proxy.example.com:3128"},
            "http://proxy.example.com:3128",
        ),
        ("https://example.com:6443", {"HTTP_PROXY": "http://proxy.example.com:3128"}, None),
        (
            "https://example.com:6443",
            {"HTTPS_PROXY": "http://proxy.example.com", "NO_PROXY": "else,example.com"},
            None,
        ),
        (
            "https://10.0.0.1:443",
            {"HTTPS_PROXY": "http://proxy.example.com", "NO_PROXY": "10.0.0.1"},
            None,
        ),
        ("https://[::1]:443", {"HTTPS_PROXY": "http://proxy.example.com", "no_proxy": "::1"}, None),
        (
            "https://api.example.com",
            {"HTTPS_PROXY": "http://proxy.example.com", "NO_PROXY": ".example.com"},
            None,
        ),
        ("https://example.com", {"HTTPS_PROXY": "http://proxy.example.com", "NO_PROXY": "*"}, None),
    ],
)
def test_the_proxy_of_the_environment_is_found(
    monkeypatch: pytest.MonkeyPatch, server: str, variables: dict[str, str], proxy: str | None
) -> None:
    forget_proxies(monkeypatch)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_proxy(server) == proxy


def forget_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_requests_use_the_given_proxy_and_not_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_proxies(monkeypatch)
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG.format(server="http://api.example.com", token=8))
    monkeypatch.setenv("KUBECONFIG", str(path))

    async def run() -> None:
        async with serve() as stub:
            monkeypatch.setenv("http_proxy", stub.url)
            api = KubernetesApi(await load_configuration(), agent="tests/1")
            monkeypatch.delenv("http_proxy")
            try:
                stub.answer({"kind": "Pod"})
                assert await api.get(Resource.POD, "team", "a") == {"kind": "Pod"}
            finally:
                await api.close()
            (asked,) = stub.asked
            assert asked.headers["host"] == "api.example.com"
            sessions = api._client.rest_client.pool_manager
            assert sessions is not None
            assert not sessions.trust_env

    asyncio.run(run())
