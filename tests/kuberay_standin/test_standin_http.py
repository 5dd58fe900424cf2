"""HTTP requests to the API server and Ray's dashboard, and the handling of their responses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from kuberay_standin.scene import JobAnswer
from kuberay_standin.shell.api import Api, RefusalError, build_path, read_kubeconfig
from kuberay_standin.shell.dashboard import ask_dashboard, read_value, stop_job


class Listener(BaseHTTPRequestHandler):
    """A handler that records requests and returns the test's responses."""

    requests: list[tuple[str, str, str, Any]]
    answer: tuple[int, str]

    def do_GET(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        own = self.headers.get("Authorization") or self.headers.get("X-Ray-Authorization")
        found = (self.command, self.path, own or "")
        self.requests.append((*found, json.loads(body) if body else None))
        self.send_response(self.answer[0])
        self.end_headers()
        self.wfile.write(self.answer[1].encode())

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the names it calls

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def listener() -> Iterator[type[Listener]]:
    class Mine(Listener):
        answer = (200, "{}")
        address = ""

    Mine.requests = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Mine) as server:
        Mine.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Mine
        server.shutdown()
        thread.join()


@pytest.fixture
def api(listener: Any, tmp_path: Path) -> Api:
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://{listener.address}/base"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return Api(read_kubeconfig(path))


def test_requests_to_the_api_server_are_valid(api: Api, listener: Any) -> None:
    body = {
        "kind": "RayJob",
        "metadata": {"name": "rj", "namespace": "here", "resourceVersion": "7"},
    }
    api.create(body)
    api.put_status(body, {"failed": 0})
    api.hold(body, ("mine",))
    api.delete("Pod", "here", "p")
    listener.answer = (200, '{"apiVersion": "v1", "items": [{"metadata": {}}]}')
    (pod,) = api.list("Pod", "here", "a=b")
    assert (pod["kind"], pod["apiVersion"]) == ("Pod", "v1")
    rayjob = "/base/apis/ray.io/v1/namespaces/here/rayjobs"
    assert [(method, path) for method, path, _, _ in listener.requests] == [
        ("POST", rayjob),
        ("PUT", f"{rayjob}/rj/status"),
        ("PATCH", f"{rayjob}/rj"),
        ("DELETE", "/base/api/v1/namespaces/here/pods/p"),
        ("GET", "/base/api/v1/namespaces/here/pods?labelSelector=a%3Db"),
    ]
    sent = [body for _, _, _, body in listener.requests]
    assert sent[1] == {**body, "status": {"failed": 0}}
    assert sent[2]["metadata"] == {"finalizers": ["mine"], "resourceVersion": "7"}
    assert sent[3] == {"propagationPolicy": "Background"}
    assert {token for _, _, token, _ in listener.requests} == {"Bearer secret"}


def test_a_refusal_has_the_servers_message(api: Api, listener: Any) -> None:
    listener.answer = (409, '{"message": "there is one"}')
    with pytest.raises(RefusalError, match="409: there is one") as caught:
        api.delete("Pod", "here", "p")
    assert caught.value.status == 409


def test_a_cluster_wide_path_has_no_namespace() -> None:
    assert build_path("RayJob") == "apis/ray.io/v1/rayjobs"


@pytest.mark.parametrize(
    ("status", "text", "answer"),
    [
        (404, "Job rj-1 does not exist", JobAnswer()),
        (500, "Traceback", JobAnswer(is_reached=False)),
        (200, "not JSON", JobAnswer(is_reached=False)),
        (
            200,
            '{"status": "RUNNING", "message": "on", "start_time": 1795256779512, "end_time": null}',
            JobAnswer(status="RUNNING", message="on", start="2026-11-21T10:26:19Z"),
        ),
    ],
)
def test_a_dashboards_answer_is_parsed(
    listener: Any, status: int, text: str, answer: JobAnswer
) -> None:
    listener.answer = (status, text)
    assert ask_dashboard(listener.address, "rj-1") == answer
    assert [("GET", "/api/jobs/rj-1")] == [request[:2] for request in listener.requests]


def test_a_job_is_stopped_by_its_name(listener: Any) -> None:
    stop_job(listener.address, "rj-1")
    assert [("POST", "/api/jobs/rj-1/stop")] == [request[:2] for request in listener.requests]


def test_a_dashboard_request_has_the_clusters_token(listener: Any) -> None:
    listener.answer = (404, "")
    ask_dashboard(listener.address, "rj-1", "secret")
    stop_job(listener.address, "rj-1", "secret")
    ask_dashboard(listener.address, "rj-1")
    assert ["Bearer secret", "Bearer secret", ""] == [each[2] for each in listener.requests]


def test_a_missing_dashboard_is_not_reached() -> None:
    assert ask_dashboard("", "rj-1") == JobAnswer(is_reached=False)
    stop_job("127.0.0.1:1", "rj-1")


def test_an_ended_job_has_its_end_time() -> None:
    answer = read_value({"status": "FAILED", "message": None, "start_time": 1000, "end_time": 2999})
    assert answer == JobAnswer(
        status="FAILED", start="1970-01-01T00:00:01Z", end="1970-01-01T00:00:02Z"
    )
