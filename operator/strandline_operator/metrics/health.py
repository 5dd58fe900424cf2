"""Serves the operator's health page.

The numbers on the page are read on the event loop that does the work, so if the loop is stuck, the
page reports a failure although its own threads run. This module must not depend on the meaning of
the numbers.
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
# Seconds to wait for the event loop. Must be shorter than a probe's timeout.
ANSWER_SECONDS = 8.0

Check = Callable[[], Mapping[str, float]]


def make_health_page(check: Check, loop: asyncio.AbstractEventLoop) -> Page:
    """Return the page `/healthz`: status 200 with numbers, or 500 with the stuck part.

    Args:
        check: function that returns the numbers, or raises a RuntimeError; called on the loop.
        loop: event loop that does the work.
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
    """Call the check on the event loop.

    A coroutine would cause a warning at exit if it was never started, so this is a plain function.
    """
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
