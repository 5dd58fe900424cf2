"""A local listener for OpenLineage events that answers as a test requires."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Event = dict[str, Any]


class Listener:
    """The received events, and the settings of the listener.

    Attributes:
        status: HTTP status of every answer.
        answers: event that the listener awaits before each answer.
        received: event that is set when an OpenLineage event arrives.
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
    """Listen on a free port until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            listener.events.append(json.loads(body))
            listener.received.set()
            listener.answers.wait()
            self.send_response(listener.status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Suppress the request log."""

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
