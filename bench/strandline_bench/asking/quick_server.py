"""A server of OpenAI's protocol that answers after so many seconds: `quick_server.py SECONDS`.

The port is printed. There is little work in an answer, so that the clients are compared.
"""

from __future__ import annotations

import asyncio
import json
import sys

_PROMPT_TOKENS, _COMPLETION_TOKENS = 20, 3
TOKENS = _PROMPT_TOKENS + _COMPLETION_TOKENS  # of a request
_ANSWER = json.dumps(
    {
        "choices": [
            {"message": {"role": "assistant", "content": "three"}, "finish_reason": "stop"}
        ],
        "model": "quick",
        "usage": {"prompt_tokens": _PROMPT_TOKENS, "completion_tokens": _COMPLETION_TOKENS},
    }
).encode()
_REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
    len(_ANSWER),
    _ANSWER,
)


class _Connection(asyncio.Protocol):
    def __init__(self, seconds: float) -> None:
        self._seconds, self._received = seconds, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # a TCP server hands in no other
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, mark, body = self._received.partition(b"\r\n\r\n")
        if not mark:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(body) >= length:
            self._received = body[length:]
            asyncio.get_running_loop().call_later(self._seconds, self._transport.write, _REPLY)


async def serve(seconds: float) -> None:
    """Serve until the process is ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(seconds), "127.0.0.1", 0, backlog=512)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
