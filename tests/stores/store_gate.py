"""A proxy in front of a store that forwards requests until it starts to reject them.

The proxy's rejection equals the cloud's response to expired credentials. This module must not
depend on the requested objects.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

from store_server import Store

_HOPS = {"connection", "transfer-encoding", "content-length"}
_S3 = "<?xml version='1.0'?><Error><Code>{}</Code><Message>{}</Message></Error>"


class Answer(NamedTuple):
    """A response of a store instead of a file.

    Attributes:
        said: text of the response that the user's message must contain.
    """

    status: int
    content: str
    said: str
    code: str = ""


EXPIRED = {
    "s3": Answer(
        400,
        _S3.format("ExpiredToken", "The provided token has expired."),
        "The provided token has expired.",
    ),
    "gs": Answer(
        401,
        json.dumps({"error": {"code": 401, "message": "Invalid Credentials"}}),
        "Invalid Credentials",
    ),
    "abfs": Answer(
        403,
        _S3.format("AuthenticationFailed", "Signature not valid in the specified time frame"),
        "Signature not valid in the specified time frame",
        "AuthenticationFailed",
    ),
}
FORBIDDEN = {
    "s3": Answer(403, _S3.format("AccessDenied", "Access Denied"), "Access Denied"),
    "gs": Answer(
        403, json.dumps({"error": {"code": 403, "message": "no storage.objects.get"}}), "Forbidden"
    ),
    "abfs": Answer(
        403,
        _S3.format("AuthorizationPermissionMismatch", "This request is not authorized to do this"),
        "not authorized",
        "AuthorizationPermissionMismatch",
    ),
}


class Gate:
    """Rejects some requests, and forwards all others.

    Args:
        refuses: function that returns True for the method and path of a request to reject.
    """

    def __init__(self, store: Store, answer: Answer, refuses: Callable[[str, str], bool]) -> None:
        self.refused = 0
        self._store = store
        handler = type("Handler", (_Handler,), {"gate": self, "answer": answer})
        self.backend = urlsplit(store.url)
        self.refuses = refuses
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that a process needs to use the gate."""
        url = f"http://127.0.0.1:{self.server.server_address[1]}"
        return {
            name: value.replace(self._store.url, url)
            for name, value in self._store.variables.items()
        }


@contextmanager
def put_before(store: Store, answer: Answer, refuses: Callable[[str, str], bool]) -> Iterator[Gate]:
    """Run a gate for the duration of the block."""
    gate = Gate(store, answer, refuses)
    thread = threading.Thread(target=gate.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield gate
    finally:
        gate.server.shutdown()
        gate.server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    gate: Gate
    answer: Answer

    def _hand_on(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.gate.refuses(self.command, self.path):
            self.gate.refused += 1
            kind = "application/json" if self.answer.content.startswith("{") else "application/xml"
            headers = {"Content-Type": kind}
            if self.answer.code:
                headers["x-ms-error-code"] = self.answer.code
            self._send(self.answer.status, headers, self.answer.content.encode())
            return
        backend = self.gate.backend
        connection = HTTPConnection(backend.hostname or "", backend.port, timeout=60)
        given = {name: text for name, text in self.headers.items() if name.lower() not in _HOPS}
        connection.request(self.command, self.path, content or None, given)
        found = connection.getresponse()
        body, length = found.read(), found.getheader("Content-Length")
        kept = {name: text for name, text in found.getheaders() if name.lower() not in _HOPS}
        self._send(found.status, kept, body, length)
        connection.close()

    def _send(
        self, status: int, headers: dict[str, str], body: bytes, length: str | None = None
    ) -> None:
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", length or str(len(body)))
        with suppress(ConnectionError):  # a rejected client may disconnect early
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_PATCH = _hand_on  # noqa: N815 - its names

    def log_message(self, *_: object) -> None:
        pass
