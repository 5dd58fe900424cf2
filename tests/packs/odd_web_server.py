"""A loopback web server that omits what other servers provide: lengths, ranges, and versions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Manners(NamedTuple):
    """The behavior of a server.

    Attributes:
        length: whether it sends the number of bytes.
        parts: whether it serves ranges.
        etag: the ETag, or None for no ETag.
        modified: the modification time, or None for no time.
        chunked: whether it sends chunks, which show the end.
        cut: bytes after which the connection is lost, or None for no loss.
    """

    length: bool = False
    parts: bool = False
    etag: str | None = None
    modified: str | None = None
    chunked: bool = False
    cut: int | None = None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    web: OddWeb

    def do_HEAD(self) -> None:
        self.close_connection = True
        content = self.web.files.get(self.path)
        self._begin(404 if content is None else 200, content or b"")

    def do_GET(self) -> None:
        self.close_connection = True
        content = self.web.files.get(self.path)
        if content is None:
            self._begin(404, b"")
            return
        self.web.gets.append(self.path)
        wanted = self.headers.get("Range")
        if wanted and self.web.manners.parts:
            self._send_part(content, wanted)
            return
        self._begin(200, content)
        self._send(content[: self.web.manners.cut], is_whole=self.web.manners.cut is None)

    def _begin(self, code: int, content: bytes) -> None:
        self.send_response(code)
        for name, value in _list_headers(self.web.manners, len(content)):
            self.send_header(name, value)
        self.end_headers()

    def _send_part(self, content: bytes, wanted: str) -> None:
        start, end = map(int, wanted.removeprefix("bytes=").split("-"))
        part = content[start : end + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)

    def _send(self, content: bytes, *, is_whole: bool) -> None:
        if not self.web.manners.chunked:
            self.wfile.write(content)
            return
        for start in range(0, len(content), 700):
            piece = content[start : start + 700]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n" if is_whole else b"")

    def log_message(self, *_: object) -> None:
        pass


class OddWeb:
    """The server's files by path, and the number of GET requests per file."""

    def __init__(self, manners: Manners) -> None:
        self.manners = manners
        self.files: dict[str, bytes] = {}
        self.gets: list[str] = []
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"web": self})
        )
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def run(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _list_headers(manners: Manners, size: int) -> Iterator[tuple[str, str]]:
    if manners.length:
        yield "Content-Length", str(size)
    if manners.etag:
        yield "ETag", manners.etag
    if manners.modified:
        yield "Last-Modified", manners.modified
    if manners.chunked:
        yield "Transfer-Encoding", "chunked"
    yield "Connection", "close"


@contextmanager
def serve_oddly(manners: Manners) -> Iterator[OddWeb]:
    web = OddWeb(manners)
    thread = threading.Thread(target=web.run, daemon=True)
    thread.start()
    try:
        yield web
    finally:
        web.stop()
        thread.join()
