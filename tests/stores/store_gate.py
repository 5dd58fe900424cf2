"""A gate before a store: it hands requests on, until it lets nobody in any more.

What it answers then is what each cloud answers to who asks with credentials that have expired. This
room must not know what is asked for.
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
    """What a store answers instead of a file.

    Attributes:
        said: what of it has to be in the sentence that a person reads.
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
    """Whoever asks for what is refused gets the answer; all others are handed on.

    Args:
        refuses: by method and path of a request.
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
        """What a process needs to come through the gate."""
        url = f"http://127.0.0.1:{self.server.server_address[1]}"
        return {
            name: value.replace(self._store.url, url)
            for name, value in self._store.variables.items()
        }


@contextmanager
def put_before(store: Store, answer: Answer, refuses: Callable[[str, str], bool]) -> Iterator[Gate]:
    """Run a gate until it is no longer needed."""
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
        with suppress(ConnectionError):  # who is refused may not stay to hear why
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_PATCH = _hand_on  # noqa: N815 - its names

    def log_message(self, *_: object) -> None:
        pass
