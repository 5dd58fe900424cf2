"""Extracts text in a child process, which the kernel kills if a page takes too long.

A hanging C parser holds the interpreter lock, so a Python signal handler would never run. The
child's timers keep their default action instead: the kernel kills the process, wherever it hangs.
The timers count CPU time, so a busy machine drops the same pages as an idle machine.
"""

from __future__ import annotations

import logging
import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from strandline_packs.web.extraction import ExtractionSettings, create_extractor

_LENGTH = struct.Struct(">Q")
_SLOWNESS = 20  # wall-clock limit, as a multiple of the CPU time limit
_GRACE = 60.0  # seconds of wall-clock time, in addition
_MEMORY = 512 << 20
_HAS_PROC = Path("/proc/self/statm").exists()
_PROGRAM = "from strandline_packs.web.extractor_process import serve; serve()"
_OVERRUN = {-signal.SIGPROF, -signal.SIGALRM}
_CRASHES = {-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT, -signal.SIGFPE, -signal.SIGILL}


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
            _send(self._requests, (content, charset))
            return cast("Extraction", _receive(self._answers))
        except (EOFError, BrokenPipeError):
            code = self._child.wait()
            self._finalizer()
            self._begin()
        if code in _OVERRUN:
            return Extraction(problem="extraction too slow")
        if code in _CRASHES:
            return Extraction(problem="extraction crashed")
        msg = f"the process that extracts text ended with {code}, possibly because memory ran out"
        raise ExtractorDiedError(msg)

    def close(self) -> None:
        """Stop the child."""
        self._finalizer()

    def _begin(self) -> None:
        # The child must import from the same folders as this process.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._child = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._finalizer = weakref.finalize(self, _end, self._child)
        self._requests = cast("BinaryIO", self._child.stdin)
        self._answers = cast("BinaryIO", self._child.stdout)
        problem = self._greet()
        if problem:
            self._finalizer()
            msg = f"the process that extracts text could not start: {problem}"
            raise ExtractorDiedError(msg)

    def _greet(self) -> str:
        try:
            _send(self._requests, self._greeting)
            return cast("str", _receive(self._answers))
        except (EOFError, BrokenPipeError):
            return f"it ended with {self._child.wait()}, possibly because memory ran out"


def serve() -> None:
    """Run the child process: extract pages from standard input until its end."""
    requests, answers = _take_streams()
    # On Ctrl-C the parent stops the child.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    logging.disable()  # libraries log every defect of a page
    greeting = cast("tuple[ExtractionSettings, float, int]", _receive(requests))
    settings, seconds, memory = greeting
    try:
        extract = create_extractor(settings)
    except Exception as error:  # noqa: BLE001 - the parent reports it
        _send(answers, f"{type(error).__name__}: {error}")
        return
    # Limit memory after loading, so that the size of the libraries does not count.
    _bound_memory(memory)
    _send(answers, "")
    _answer_pages(extract, seconds, requests, answers)


def _answer_pages(
    extract: Callable[[bytes, str], str], seconds: float, requests: BinaryIO, answers: BinaryIO
) -> None:
    while True:
        try:
            content, charset = cast("tuple[bytes, str]", _receive(requests))
        except EOFError:
            return
        _set_timers(seconds)
        found = _extract(extract, content, charset)
        # Waiting for the next page must not count.
        _set_timers(0)
        _send(answers, found)


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


def _bound_memory(memory: int) -> None:
    """Limit the memory of the process, so that a large allocation fails instead of an OOM kill."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if _HAS_PROC else 0
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    # RLIMIT_AS counts all mapped memory, so add the memory in use.
    limit = pages * resource.getpagesize() + memory
    resource.setrlimit(
        resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard)
    )


def _take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return the streams to the parent, and redirect output of libraries to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, answers


def _set_timers(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    # A waiting page uses no CPU time, so limit the wall-clock time too.
    signal.setitimer(signal.ITIMER_REAL, seconds and seconds * _SLOWNESS + _GRACE)


def _send(stream: BinaryIO, value: object) -> None:
    data = pickle.dumps(value, protocol=5)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def _receive(stream: BinaryIO) -> object:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)  # noqa: S301 - written by our own process


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    for stream in (child.stdin, child.stdout):
        try:
            cast("BinaryIO", stream).close()
        except BrokenPipeError:  # unsent bytes are useless
            continue
