"""A model server in its own process that injects faults into its responses. Tests may kill it.

`python faulty_server.py PORT FOLDER SEED LOGS`. The server writes its process ID and each request
into the folder before it responds. If the folder has a file `vanished`, the model is gone. The
server also records requests whose answer the request logs already have, if the client still waits.
"""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from fake_model import (
    MODEL,
    PASSING,
    PROBE,
    AnsweringHandler,
    AnsweringServer,
    FakeModel,
    Fault,
    draw_faults,
)
from strandline_packs.models.asking.answers import Reply, UnansweredRequest
from strandline_packs.models.asking.log.request_log import SUFFIX, FileLog
from vendor_replies import USAGE

ASKED, GIVEN, TWICE, PIDS, VANISHED = "asked", "given", "twice", "pids", "vanished"
LATE_SECONDS, READ_SECONDS = 3.0, 2.0
WORK_SECONDS = 0.01
ALL_PASSING = (*(fault for fault in PASSING if fault != "busy for a while"), "busy for a moment")
WRONG = "of another schema"
TOKENS = USAGE["total_tokens"]


def choose_fault(seed: int, prompt: str, time: int) -> Fault:
    """Return the fault for the nth request of a prompt."""
    fault = draw_faults(seed, 0.3, most=2, passing=ALL_PASSING)(prompt, time)
    drawn = random.Random(f"{seed} {prompt} answer").random()
    # A wrong answer is repaired by another request. If all answers are wrong, the row has no
    # answer.
    is_wrong = drawn < 0.05 or (drawn < 0.15 and time == 1)
    return WRONG if fault is None and is_wrong and prompt != PROBE else fault


def is_hopeless(seed: int, prompt: str) -> bool:
    """Return whether a prompt never gets a correct answer."""
    return choose_fault(seed, prompt, 1000) is not None


def write_line(path: Path, line: str) -> None:
    """Append a line. Concurrent writers are safe."""
    with path.open("a") as file:
        file.write(f"{line}\n")


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file, or an empty list if the file is missing."""
    return path.read_text().splitlines() if path.exists() else []


def is_waited_for(connection: socket.socket) -> bool:
    """Return whether the client is still connected. A killed client is not connected."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


class LoggedPrompts:
    """Prompts that have an answer in the logs below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: dict[Path, FileLog] = {}
        self._prompts: set[str] = set()

    def read(self) -> set[str]:
        """Return all prompts that have been logged so far."""
        for path in self._folder.glob(f"*/*{SUFFIX}"):
            for entry in self._logs.setdefault(path, FileLog(path)).read():
                self._prompts.add(json.loads(entry.answer.text)["echo"])
        return self._prompts


class FaultyModel:
    """Responds with JSON that contains the prompt, and counts requests in files."""

    def __init__(self, folder: Path, seed: int, logs: Path) -> None:
        self._folder, self._seed, self._logged = folder, seed, LoggedPrompts(logs)
        self._lock = threading.Lock()
        self._times = Counter(read_lines(folder / ASKED))
        self._model = FakeModel(choose=self._choose, answer=self._answer)

    def reply(self, path: str, body: bytes, connection: socket.socket) -> Reply | UnansweredRequest:
        """Return the response."""
        request = json.loads(body)
        del request["messages"][1:]  # messages that request a repair
        prompt = request["messages"][0]["content"]
        with self._lock:
            write_line(self._folder / ASKED, prompt)
            self._times[prompt] += 1
            if prompt in self._logged.read() and is_waited_for(connection):
                write_line(self._folder / TWICE, prompt)
        time.sleep(WORK_SECONDS)
        if (self._folder / VANISHED).exists():
            request["model"] = "another"
        reply = self._model.reply(path, json.dumps(request).encode())
        if isinstance(reply, Reply) and b"total_tokens" in reply.body:
            write_line(self._folder / GIVEN, prompt)
        return reply

    def _choose(self, prompt: str, _: int) -> Fault:
        fault = self._find_fault(prompt)
        return None if fault == WRONG else fault

    def _answer(self, prompt: str) -> str:
        is_wrong = self._find_fault(prompt) == WRONG
        return json.dumps({"another": 1} if is_wrong else {"echo": prompt})

    def _find_fault(self, prompt: str) -> Fault:
        return choose_fault(self._seed, prompt, self._times[prompt])


class Handler(AnsweringHandler):
    """Sends the model's response or drops the connection."""

    model: FaultyModel

    def do_GET(self) -> None:  # noqa: N802 - the base calls it so
        self.send_reply(Reply(200, {}, json.dumps({"data": [{"id": MODEL}]}).encode()))

    def do_POST(self) -> None:  # noqa: N802 - the base calls it so
        found = self.model.reply(self.path, self.read_body(), self.connection)
        if isinstance(found, Reply):
            self.send_reply(found)
        else:
            self._break_off(found)

    def _break_off(self, found: UnansweredRequest) -> None:
        self.close_connection = True
        if found.is_late:
            time.sleep(LATE_SECONDS)
        elif "reset" in found.what:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()
        else:
            self.send_half()

    def handle(self) -> None:
        with suppress(OSError, ValueError):  # the client was killed, or the connection was dropped
            super().handle()


def main(port: int, folder: Path, seed: int, logs: Path) -> None:
    """Serve until killed."""
    Handler.model = FaultyModel(folder, seed, logs)
    server = AnsweringServer(("127.0.0.1", port), Handler)
    (folder / PIDS).mkdir(exist_ok=True)
    (folder / PIDS / str(os.getpid())).touch()
    server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
