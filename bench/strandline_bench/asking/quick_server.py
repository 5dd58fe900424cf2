"""A server of the OpenAI API with a fixed response time: `quick_server.py SECONDS`.

Prints its port. A response needs little work, so the benchmark compares the clients. The server
counts requests itself, so the result does not depend on the clients' own counts.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_PROMPT_TOKENS, _COMPLETION_TOKENS = 20, 3
TOKENS = _PROMPT_TOKENS + _COMPLETION_TOKENS  # tokens per request
ASKED = "asked"  # path that returns the counts since its previous request
_ANSWER = {
    "choices": [{"message": {"role": "assistant", "content": "three"}, "finish_reason": "stop"}],
    "model": "quick",
    "usage": {"prompt_tokens": _PROMPT_TOKENS, "completion_tokens": _COMPLETION_TOKENS},
}


def _render(value: object) -> bytes:
    body = json.dumps(value).encode()
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


_REPLY = _render(_ANSWER)


class _Tally:
    """The number of responses, and the seconds from the first request to the last response."""

    def __init__(self) -> None:
        self._count, self._first, self._last = 0, 0.0, 0.0

    def note_request(self) -> None:
        self._first = self._first or time.monotonic()

    def note_answer(self) -> None:
        self._count, self._last = self._count + 1, time.monotonic()

    def take(self) -> bytes:
        found = {"answers": self._count, "seconds": self._last - self._first}
        self._count, self._first, self._last = 0, 0.0, 0.0
        return _render(found)


class _Connection(asyncio.Protocol):
    def __init__(self, seconds: float, tally: _Tally) -> None:
        self._seconds, self._tally, self._received = seconds, tally, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # a TCP server uses no other transport type
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, mark, body = self._received.partition(b"\r\n\r\n")
        if not mark:
            return
        fields = head.lower()
        if fields.startswith(b"get "):  # a read of the counts, not a request
            self._received = body
            self._transport.write(self._tally.take() if ASKED.encode() in fields else _REPLY)
            return
        length = int(fields.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(body) >= length:
            self._received = body[length:]
            self._tally.note_request()
            is_last = b"connection: close" in fields
            asyncio.get_running_loop().call_later(self._seconds, self._answer, is_last)

    def _answer(self, is_last: bool) -> None:  # noqa: FBT001 - a call of the loop
        self._tally.note_answer()
        self._transport.write(_REPLY)
        if is_last:
            self._transport.close()


@contextmanager
def started_server(seconds: float) -> Iterator[str]:
    """Run the server in a separate process and yield its URL."""
    command = [sys.executable, __file__, str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:  # noqa: S603 - this module
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


async def serve(seconds: float) -> None:
    """Serve until the process ends."""
    loop, tally = asyncio.get_running_loop(), _Tally()
    server = await loop.create_server(
        lambda: _Connection(seconds, tally), "127.0.0.1", 0, backlog=512
    )
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
