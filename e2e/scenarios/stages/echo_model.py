"""A model server that runs in a worker: it echoes each prompt and logs the request.

Usage: `python echo_model.py PORT NAME FOLDER`. The server implements the required part of the
OpenAI API.
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT, NAME, FOLDER = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
SECONDS = 0.5


class Handler(BaseHTTPRequestHandler):
    """Handles one connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Return the list of models, which has one model."""
        self.answer({"data": [{"id": NAME}]})

    def do_POST(self) -> None:
        """Return the prompt after a delay."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = body["messages"][-1]["content"]
        note("asked", prompt)
        time.sleep(SECONDS)
        choice = {"message": {"role": "assistant", "content": prompt}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1}
        self.answer({"choices": [choice], "model": NAME, "usage": usage})

    def answer(self, content: object) -> None:
        """Send a response."""
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def note(name: str, line: str) -> None:
    """Add a line to a file."""
    with (FOLDER / name).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


note("served-by", str(os.getpid()))
ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
