"""A thread for each connection to a server, and no more than so many.

Connections without a question then keep no other from being answered, and take no memory.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from socketserver import BaseServer, ThreadingMixIn
from typing import Any

MOST_CONNECTIONS = 32


class BoundedThreads(ThreadingMixIn, BaseServer):
    """Makes room for one more connection by ending the oldest."""

    daemon_threads = True

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - the server's
        self._open: dict[int, socket.socket] = {}
        self._turn = threading.Lock()
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Answer in a thread of its own."""
        with self._turn:
            if len(self._open) >= MOST_CONNECTIONS:
                oldest = self._open.pop(next(iter(self._open)))
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._open[id(request)] = request
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as in the class above
        """End a connection."""
        with self._turn:
            self._open.pop(id(request), None)
        super().shutdown_request(request)
