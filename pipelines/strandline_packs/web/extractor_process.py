"""Extracts text in a child process, which the kernel kills if a page takes too long."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import BinaryIO, NamedTuple, cast

from strandline_packs.web.child_process import (
    CRASHES,
    OVERRUN,
    bound_memory,
    end_child,
    prepare_child,
    receive_value,
    send_value,
    set_timers,
    start_child,
)
from strandline_packs.web.extraction import ExtractionSettings, create_extractor

_MEMORY = 512 << 20
_PROGRAM = "from strandline_packs.web.extractor_process import serve; serve()"


class ExtractorDiedError(Exception):
    """Raised if the child process ended for a reason other than the page."""


class Extraction(NamedTuple):
    """Result of extracting one page.

    Attributes:
        text: main content.
        problem: reason why the text is missing; empty on success.
    """

    text: str = ""
    problem: str = ""


class ExtractorProcess:
    """Child process that extracts pages in sequence, and is restarted after a kill.

    Args:
        settings: settings of the extraction.
        seconds: CPU time limit of a page.
        memory: memory limit of a page, in bytes.

    Raises:
        ExtractorDiedError: the child process could not start.
    """

    def __init__(self, settings: ExtractionSettings, seconds: float, memory: int = _MEMORY) -> None:
        self._greeting = (settings, seconds, memory)
        self._begin()

    def extract(self, content: bytes, charset: str) -> Extraction:
        """Extract a page.

        Raises:
            ExtractorDiedError: the child ended for a reason other than the page.
        """
        try:
            send_value(self._requests, (content, charset))
            return cast("Extraction", receive_value(self._answers))
        except (EOFError, BrokenPipeError):
            code = self._child.wait()
            self._finalizer()
            self._begin()
        if code in OVERRUN:
            return Extraction(problem="extraction too slow")
        if code in CRASHES:
            return Extraction(problem="extraction crashed")
        msg = f"the process that extracts text ended with {code}, possibly because memory ran out"
        raise ExtractorDiedError(msg)

    def close(self) -> None:
        """Stop the child."""
        self._finalizer()

    def _begin(self) -> None:
        self._child = start_child(_PROGRAM)
        self._finalizer = weakref.finalize(self, end_child, self._child)
        self._requests = cast("BinaryIO", self._child.stdin)
        self._answers = cast("BinaryIO", self._child.stdout)
        problem = self._greet()
        if problem:
            self._finalizer()
            msg = f"the process that extracts text could not start: {problem}"
            raise ExtractorDiedError(msg)

    def _greet(self) -> str:
        try:
            send_value(self._requests, self._greeting)
            return cast("str", receive_value(self._answers))
        except (EOFError, BrokenPipeError):
            return f"it ended with {self._child.wait()}, possibly because memory ran out"


def serve() -> None:
    """Run the child process: extract pages from standard input until its end."""
    requests, answers = prepare_child()
    logging.disable()  # libraries log every defect of a page
    greeting = cast("tuple[ExtractionSettings, float, int]", receive_value(requests))
    settings, seconds, memory = greeting
    try:
        extract = create_extractor(settings)
    except Exception as error:  # noqa: BLE001 - the parent reports it
        send_value(answers, f"{type(error).__name__}: {error}")
        return
    # Limit memory after loading, so that the size of the libraries does not count.
    bound_memory(memory)
    send_value(answers, "")
    _answer_pages(extract, seconds, requests, answers)


def _answer_pages(
    extract: Callable[[bytes, str], str], seconds: float, requests: BinaryIO, answers: BinaryIO
) -> None:
    while True:
        try:
            content, charset = cast("tuple[bytes, str]", receive_value(requests))
        except EOFError:
            return
        set_timers(seconds)
        found = _extract(extract, content, charset)
        # Waiting for the next page must not count.
        set_timers(0)
        send_value(answers, found)


def _extract(extract: Callable[[bytes, str], str], content: bytes, charset: str) -> Extraction:
    try:
        text = extract(content, charset)
    except MemoryError:
        return Extraction(problem="extraction took too much memory")
    except Exception:  # noqa: BLE001 - a page can trigger any error in a library
        return Extraction(problem="extraction failed")
    if not text:
        return Extraction(problem="no text")
    # Parsers may return unpaired surrogates, which no column can hold.
    return Extraction(text.encode("utf-8", "replace").decode())
