"""Serves HTTP pages on all addresses of the pod, IPv4 and IPv6.

A cluster may have only IPv6, or both families in any order. This module must not depend on the
contents of pages.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from strandline_api.outcome.bounded_threads import BoundedThreads

EVERY_ADDRESS_6, EVERY_ADDRESS_4 = "::", "0.0.0.0"  # noqa: S104 - clients are outside the pod

# A WSGI application, which receives the request and a function that sends status and headers.
Page = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class _Server(BoundedThreads, WSGIServer):
    """HTTP server that handles each request in a thread."""


class _DualStackListener(_Server):
    """HTTP server for IPv4 and IPv6 on one socket."""

    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        """Bind the port for both families, regardless of the machine's default."""
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class _Silent(WSGIRequestHandler):
    timeout = 30.0

    def log_message(self, *_: object) -> None:
        """Log nothing, because every probe would cause a line."""


class Listener:
    """Serves one page until it is closed.

    Args:
        page: the page.
        port: port on all addresses; 0 to choose a free port.

    Raises:
        OSError: if the port is in use.
    """

    def __init__(self, port: int, page: Page) -> None:
        self._server = _open(port, page)
        self.port: int = self._server.server_port
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _open(port: int, page: Page) -> WSGIServer:
    try:
        return make_server(EVERY_ADDRESS_6, port, page, _DualStackListener, _Silent)
    except OSError as error:
        # Other errors mean that the kernel does not support IPv6.
        if error.errno in {errno.EADDRINUSE, errno.EACCES}:
            raise
    return make_server(EVERY_ADDRESS_4, port, page, _Server, _Silent)
