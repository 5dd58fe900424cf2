"""A fake engine: a server in a separate process that dies or hangs on request.

Usage: `python fake_engine.py PORT NAME FOLDER`. The server leaves a file per start in the folder,
and logs received and answered prompts there. Prompts that begin with `die` or `hang` do so the
first time. A prompt that begins with `poison` kills the server every time. A prompt with `late` is
answered once the folder has a file `go`, or after a second if the folder has a file `soon`. If the
folder has a file `broken`, the server does not start. A prompt that begins with `orphan` ends the
server the first time, but a child of the server keeps the connection open.
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT, NAME, FOLDER = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])


def note(what: str, prompt: str) -> None:
    with (FOLDER / what).open("a") as file:
        file.write(f"{prompt}\n")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if (FOLDER / f"hanging-{os.getpid()}").exists():
            time.sleep(1000)
        self.give({"data": [{"id": NAME}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = body["messages"][-1]["content"]
        once = FOLDER / f"did-{prompt}"
        note("asked", prompt)
        if prompt.startswith("poison"):
            os._exit(7)
        if prompt.startswith(("die", "hang")) and not once.exists():
            once.touch()
            if prompt.startswith("die"):
                os._exit(7)
            (FOLDER / f"hanging-{os.getpid()}").touch()
            time.sleep(1000)
        if prompt.startswith("orphan") and not once.exists():
            once.touch()
            if os.fork() == 0:  # the child keeps the connection open and never answers
                time.sleep(60)
            os._exit(7)
        if prompt.startswith("late"):
            begun = time.monotonic()
            while not (FOLDER / "go").exists():
                if (FOLDER / "soon").exists() and time.monotonic() - begun > 1:
                    break
                time.sleep(0.02)
        note("answered", prompt)
        message = {"role": "assistant", "content": f"{NAME}: {prompt}"}
        choice = {"message": message, "finish_reason": "stop"}
        self.give({"choices": [choice], "model": NAME, "usage": {"prompt_tokens": 1}})

    def give(self, answer: object) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


if (FOLDER / "broken").exists():
    sys.exit("the weights are torn")
(FOLDER / f"started-{os.getpid()}").touch()
ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
