"""Messages between a driver and its forked workers: pickled, with large parts sent separately.

Large parts are sent directly from memory, and arrive read-only, as from any other process. A reader
can take what has arrived, so the driver need not wait for the rest of a message from a worker that
was stopped or killed. The module must not depend on the meaning of a message.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

_COUNT = struct.Struct("!I")
_SIZE = struct.Struct("!Q")
_CHUNK = 1 << 20  # maximum bytes per read


class Message(NamedTuple):
    """A received message: its content, and its size in bytes as sent."""

    content: Any
    size: int


def send(line: socket.socket, content: Any) -> None:  # noqa: ANN401 - plain lists and bytes
    """Send a message.

    Raises:
        OSError: if the other side has closed the socket.
    """
    buffers: list[pickle.PickleBuffer] = []
    # Protocol 5 leaves large buffers out of the pickle, so no copy is made.
    head = pickle.dumps(content, protocol=5, buffer_callback=buffers.append)
    parts = [memoryview(head), *(buffer.raw() for buffer in buffers)]
    sizes = b"".join(_SIZE.pack(part.nbytes) for part in parts)
    line.sendall(_COUNT.pack(len(parts)) + sizes)
    for part in parts:
        line.sendall(part)


def receive(line: socket.socket) -> Message:
    """Wait for the next message on a socket that has no `MessageReader`.

    Raises:
        EOFError, OSError: if the other side has closed the socket.
    """
    message = MessageReader(line).read()
    assert message is not None  # a blocking read waits for the whole message
    return message


class MessageReader:
    """Reads messages from a socket, with or without blocking."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._flags = 0
        self._messages = self._read_all()

    def read(self, flags: int = 0) -> Message | None:
        """Return the next message.

        Args:
            flags: flags of `socket.recv`. With `MSG_DONTWAIT`, the result is None until the whole
                message has arrived.

        Raises:
            EOFError, OSError: if the other side has closed the socket.
        """
        self._flags = flags
        try:
            return next(self._messages)
        except StopIteration:
            raise EOFError from None

    def _read_all(self) -> Iterator[Message | None]:
        while True:
            (count,) = _COUNT.unpack((yield from self._take(_COUNT.size)))
            sizes = yield from self._take(count * _SIZE.size)
            parts = []
            for (size,) in _SIZE.iter_unpack(sizes):
                parts.append((yield from self._take(size)))
            head, *buffers = parts
            content = pickle.loads(head, buffers=buffers)  # noqa: S301 - our own
            yield Message(content, sum(map(len, parts)))

    def _take(self, size: int) -> Generator[None, None, bytes]:
        """Return the next `size` bytes. Yield whenever more bytes have not arrived yet."""
        chunks = []
        while size:
            try:
                chunk = self._line.recv(min(size, _CHUNK), self._flags)
            except BlockingIOError:
                yield
                continue
            if not chunk:
                raise EOFError
            chunks.append(chunk)
            size -= len(chunk)
        # A single chunk needs no copy.
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
