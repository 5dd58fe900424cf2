"""A listener for events of OpenLineage on this machine, which answers as a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Event = dict[str, Any]


class Listener:
    """What has come in, and how it is answered.

    Attributes:
        status: of every answer.
        answers: is waited for before each of them.
        received: is set with each event.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.events: list[Event] = []
        self.status = 201
        self.answers = threading.Event()
        self.answers.set()
        self.received = threading.Event()


@contextmanager
def listening() -> Iterator[Listener]:
    """Listen at a free port as long as the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            listener.events.append(json.loads(body))
            listener.received.set()
            listener.answers.wait()
            self.send_response(listener.status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener = Listener(server.server_port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        listener.answers.set()
        server.shutdown()
        server.server_close()
        thread.join()
