"""Messages between a driver and its forked workers: pickled, with what is large beside it.

Large parts are sent as they lie in memory, and arrive read-only, as from any other
process. It must not know what a message says.
"""

from __future__ import annotations

import pickle
import struct
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

_PARTS = struct.Struct("!I")


class Message(NamedTuple):
    """One that has come: what it says, and its bytes on the way."""

    content: Any
    size: int


def send(connection: Connection, content: Any) -> None:  # noqa: ANN401 - plain lists and bytes
    """Send a message.

    Raises:
        OSError: the other side has gone.
    """
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(content, protocol=5, buffer_callback=buffers.append)
    connection.send_bytes(_PARTS.pack(len(buffers)) + head)
    for buffer in buffers:
        connection.send_bytes(buffer.raw())


def receive(connection: Connection) -> Message:
    """Wait for the next message.

    Raises:
        EOFError, OSError: the other side has gone.
    """
    head = connection.recv_bytes()
    (count,) = _PARTS.unpack_from(head)
    parts = [connection.recv_bytes() for _ in range(count)]
    content = pickle.loads(memoryview(head)[_PARTS.size :], buffers=parts)  # noqa: S301 - our own
    return Message(content, len(head) + sum(map(len, parts)))
