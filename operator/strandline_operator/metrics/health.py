"""Health page of the operator.

Its figures are read on the event loop that does the work. A stuck loop thus gives no response, even
if this page's own threads run. The module must not depend on the meaning of the figures.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from http import HTTPStatus
from typing import Any

from strandline_operator.metrics.listening import Page

PATH = "/healthz"
# Shorter than a probe's timeout.
ANSWER_SECONDS = 8.0

Check = Callable[[], Mapping[str, float]]


def make_health_page(check: Check, loop: asyncio.AbstractEventLoop) -> Page:
    """Return the page at `/healthz`: 200 with figures, or 500 with the stuck part.

    Args:
        check: returns figures, or raises a RuntimeError; called on the loop.
    """

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        if environ.get("PATH_INFO") != PATH:
            return _render(start, HTTPStatus.NOT_FOUND, {"error": f"request {PATH}"})
        future: Future[Mapping[str, float]] = Future()
        loop.call_soon_threadsafe(_carry_out, check, future)
        try:
            figures = future.result(ANSWER_SECONDS)
        except TimeoutError:
            future.cancel()
            content = {"error": f"no answer within {ANSWER_SECONDS:.0f} s"}
            return _render(start, HTTPStatus.INTERNAL_SERVER_ERROR, content)
        except RuntimeError as error:
            return _render(start, HTTPStatus.INTERNAL_SERVER_ERROR, {"error": str(error)})
        return _render(start, HTTPStatus.OK, figures)

    return answer


def _carry_out(check: Check, future: Future[Mapping[str, float]]) -> None:
    """Call the check on the loop; not a coroutine, which would warn at exit if never started."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(check())
    except Exception as error:  # noqa: BLE001 - the waiting thread raises it
        future.set_exception(error)


def _render(
    start: Callable[..., Any], status: HTTPStatus, content: Mapping[str, Any]
) -> list[bytes]:
    body = json.dumps(dict(content)).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start(f"{status.value} {status.phrase}", headers)
    return [body]
