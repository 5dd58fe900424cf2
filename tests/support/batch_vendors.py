"""The batch interfaces of OpenAI and Anthropic before a fake model, as their documents describe."""

from __future__ import annotations

import email
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fake_model import FakeModel
from strandline_packs.models.asking.answers import Reply, UnansweredRequest
from vendor_replies import give, refuse

# Result of a request that the vendor did not begin, instead of an answer.
EXPIRED, CANCELLED = "expired", "cancelled"


@dataclass
class Batch:
    """A batch that a vendor has received; `polls` counts the looks at it."""

    items: dict[str, dict[str, Any]]
    metadata: Mapping[str, str] = field(default_factory=dict)
    polls: int = 0
    is_cancelled: bool = False
    errors: list[str] = field(default_factory=list)
    results: dict[str, Reply | str] = field(default_factory=dict)


@dataclass
class Vendor:
    """A vendor whose batches end after some looks.

    Attributes:
        model: answers the requests.
        polls: looks at a batch before it ends.
        settle: returns EXPIRED or CANCELLED for the nth batch and a request, or None to answer it.
        disturb: returns the reply to a call instead of the vendor's, or None.
        batches: batches by id, in the order of arrival.
    """

    model: FakeModel
    polls: int = 2
    settle: Callable[[int, Mapping[str, Any]], str | None] = lambda _number, _body: None
    disturb: Callable[[str, str], Reply | UnansweredRequest | None] = lambda _method, _path: None
    batches: dict[str, Batch] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    async def send(
        self, method: str, path: str, body: bytes | None, kind: str
    ) -> Reply | UnansweredRequest:
        return self.answer(method, path, body, kind)

    async def post(self, path: str, body: bytes) -> Reply | UnansweredRequest:
        raise AssertionError("no request may be sent outside a batch")

    def answer(
        self, method: str, path: str, body: bytes | None, kind: str
    ) -> Reply | UnansweredRequest:
        with self.lock:
            self.calls.append((method, path))
            disturbed = self.disturb(method, path)
            return self.route(method, path, body, kind) if disturbed is None else disturbed

    def route(self, method: str, path: str, body: bytes | None, kind: str) -> Reply:
        raise NotImplementedError

    def receive(self, items: dict[str, dict[str, Any]], metadata: Mapping[str, str]) -> str:
        name = f"batch_{len(self.batches) + 1}"
        self.batches[name] = Batch(items, metadata)
        return name

    def look(self, name: str) -> bool:
        """Count a look at a batch, and return whether the batch has ended."""
        batch = self.batches[name]
        batch.polls += 1
        if batch.polls <= self.polls:
            return False
        number = list(self.batches).index(name) + 1
        for custom, body in batch.items.items():
            if custom not in batch.results:
                batch.results[custom] = self._work(number, body)
        return True

    def _work(self, number: int, body: Mapping[str, Any]) -> Reply | str:
        unbegun = self.settle(number, body)
        if unbegun is not None:
            self.batches[f"batch_{number}"].is_cancelled |= unbegun == CANCELLED
            return unbegun
        found = self.model.reply(self.path_of(body), json.dumps(body).encode())
        assert isinstance(found, Reply)
        return found

    def path_of(self, body: Mapping[str, Any]) -> str:
        return "embeddings" if "input" in body else "chat/completions"


class OpenAi(Vendor):
    """OpenAI's files and batches."""

    files: dict[str, bytes]

    def route(self, method: str, path: str, body: bytes | None, kind: str) -> Reply:
        path, _, _query = path.partition("?")
        parts = path.split("/")
        if (method, path) == ("POST", "files"):
            return self._store(body or b"", kind)
        if (method, path) == ("POST", "batches"):
            return self._create(json.loads(body or b""))
        if (method, path) == ("GET", "batches"):
            found = [self._describe(name) for name in reversed(self.batches)]
            return give({"object": "list", "data": found})
        if parts[0] == "batches" and parts[1] in self.batches:
            is_ended = self.look(parts[1])
            return give(self._describe(parts[1], is_ended))
        if parts[0] == "files" and parts[-1] == "content":
            return Reply(200, {}, self._read(parts[1]))
        return refuse(404, "No such object", "not_found")

    def _store(self, body: bytes, kind: str) -> Reply:
        message: Any = email.message_from_bytes(
            b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body
        )
        fields = {part.get_param("name", header="content-disposition"): part
                  for part in message.get_payload()}  # fmt: skip
        if fields["purpose"].get_payload(decode=True) != b"batch":
            return refuse(400, "Invalid purpose", "invalid_request_error")
        self.files = getattr(self, "files", {})
        name = f"file-{len(self.files) + 1}"
        self.files[name] = fields["file"].get_payload(decode=True)
        return give({"id": name, "object": "file", "purpose": "batch"})

    def _create(self, wanted: Mapping[str, Any]) -> Reply:
        lines = [json.loads(line) for line in self.files[wanted["input_file_id"]].splitlines()]
        assert {line["url"] for line in lines} == {wanted["endpoint"]}
        assert {line["method"] for line in lines} == {"POST"}
        assert wanted["completion_window"] == "24h"
        items = {line["custom_id"]: line["body"] for line in lines}
        assert len(items) == len(lines)
        return give(self._describe(self.receive(items, wanted["metadata"])))

    def _describe(self, name: str, is_ended: bool = False) -> dict[str, Any]:
        batch = self.batches[name]
        found: dict[str, Any] = {"id": name, "object": "batch", "metadata": dict(batch.metadata)}
        if batch.errors:
            errors = [{"code": "x", "message": each} for each in batch.errors]
            return {**found, "status": "failed", "errors": {"object": "list", "data": errors}}
        if not is_ended:
            return {**found, "status": "in_progress"}
        unbegun = [each for each in batch.results.values() if isinstance(each, str)]
        status = "completed"
        if unbegun:
            status = "cancelled" if batch.is_cancelled else "expired"
        files = {"output_file_id": f"out-{name}", "error_file_id": f"err-{name}"}
        return {**found, "status": status, **files}

    def _read(self, file: str) -> bytes:
        kind, _, name = file.partition("-")
        lines = []
        for custom, result in self.batches[name].results.items():
            is_good = isinstance(result, Reply) and result.status == 200
            if is_good == (kind == "out"):
                lines.append(json.dumps(self._line(custom, result)))
        return "\n".join(lines[::-1]).encode()  # the order of results is arbitrary

    @staticmethod
    def _line(custom: str, result: Reply | str) -> dict[str, Any]:
        line: dict[str, Any] = {"id": "req", "custom_id": custom, "response": None, "error": None}
        if isinstance(result, str):
            return {**line, "error": {"code": f"batch_{result}", "message": f"It {result}."}}
        response = {"status_code": result.status, "request_id": "r"}
        return {**line, "response": {**response, "body": json.loads(result.body)}}


class Anthropic(Vendor):
    """Anthropic's message batches."""

    def route(self, method: str, path: str, body: bytes | None, kind: str) -> Reply:
        if (method, path) == ("POST", "messages/batches"):
            requests = json.loads(body or b"")["requests"]
            items = {each["custom_id"]: each["params"] for each in requests}
            assert len(items) == len(requests)
            name = self.receive(items, {})
            return give({"id": name, "processing_status": "in_progress"})
        parts = path.split("/")[2:]
        if not parts or parts[0] not in self.batches:
            error = {"type": "not_found_error", "message": "Not found"}
            return Reply(404, {}, json.dumps({"type": "error", "error": error}).encode())
        if parts[1:] == ["results"]:
            results = self.batches[parts[0]].results.items()
            lines = [json.dumps({"custom_id": name, "result": self._tell(result)})
                     for name, result in results]  # fmt: skip
            return Reply(200, {}, "\n".join(lines[::-1]).encode())
        is_ended = self.look(parts[0])
        batch = self.batches[parts[0]]
        return give(
            {
                "id": parts[0],
                "processing_status": "ended" if is_ended else "in_progress",
                "request_counts": {"canceled": int(batch.is_cancelled and is_ended)},
            }
        )

    @staticmethod
    def _tell(result: Reply | str) -> dict[str, Any]:
        if isinstance(result, str):
            return {"type": "canceled" if result == CANCELLED else result}
        found = json.loads(result.body)
        if result.status == 200:
            choice = found["choices"][0]
            content = [{"type": "text", "text": choice["message"]["content"]}]
            return {
                "type": "succeeded",
                "message": {
                    "type": "message",
                    "role": "assistant",
                    "model": found["model"],
                    "content": content,
                    "stop_reason": "end_turn",
                    "usage": {"input_tokens": 7, "output_tokens": 3},
                },
            }
        kinds = {400: "invalid_request_error", 404: "not_found_error", 429: "rate_limit_error"}
        error = {"type": kinds.get(result.status, "api_error"), "message": "It failed."}
        return {"type": "errored", "error": {"type": "error", "error": error}}


@contextmanager
def serve_vendor(vendor: Vendor) -> Iterator[str]:
    """Serve a vendor on a free port of this machine, and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._give(None)

        def do_POST(self) -> None:
            self._give(self.rfile.read(int(self.headers["content-length"])))

        def _give(self, body: bytes | None) -> None:
            path, kind = self.path.removeprefix("/v1/"), str(self.headers["content-type"])
            found = vendor.answer(self.command, path, body, kind)
            assert isinstance(found, Reply)
            self.send_response(found.status)
            self.send_header("content-length", str(len(found.body)))
            self.end_headers()
            self.wfile.write(found.body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
