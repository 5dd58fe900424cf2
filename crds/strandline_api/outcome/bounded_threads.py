"""A server mixin that handles each connection in a thread, and limits the number of connections.

The limit prevents idle connections from blocking other requests or exhausting memory.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from socketserver import BaseServer, ThreadingMixIn
from typing import Any

MOST_CONNECTIONS = 32


class BoundedThreads(ThreadingMixIn, BaseServer):
    """Handles connections in threads, and closes the oldest connection if there are too many."""

    # An idle connection must not delay the exit of the process.
    daemon_threads = True

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - the server's
        self._open: dict[int, socket.socket] = {}
        self._turn = threading.Lock()
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Handle a connection in a separate thread."""
        with self._turn:
            if len(self._open) >= MOST_CONNECTIONS:
                # A dictionary keeps the order of insertion, so the first entry is the oldest
                # connection.
                oldest = self._open.pop(next(iter(self._open)))
                # The client may have closed the connection.
                with suppress(OSError):
                    # The thread of the connection wakes up and closes the socket itself.
                    oldest.shutdown(socket.SHUT_RDWR)
            # Add the connection before its thread starts: the thread may end immediately and remove
            # the entry.
            self._open[id(request)] = request
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as in the class above
        """Close a connection."""
        with self._turn:
            self._open.pop(id(request), None)
        super().shutdown_request(request)
