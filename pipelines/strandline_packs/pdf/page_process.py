"""Reads pages in a child process, so that a page that hangs or exhausts memory fails alone."""

from __future__ import annotations

import logging
import signal
import weakref
from collections.abc import Sequence
from enum import StrEnum
from typing import BinaryIO, NamedTuple, cast

from strandline_packs.pdf.page_layout import arrange_lines
from strandline_packs.pdf.page_lines import LineSegment, PageLine, Word, join_segments
from strandline_packs.pdf.page_tables import cut_tables, find_grids
from strandline_packs.pdf.page_text import measure_confidence
from strandline_packs.pdf.pdf_file import MOST_OBJECTS, PageContent, PdfError, PdfFile
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

_PROGRAM = "from strandline_packs.pdf.page_process import serve; serve()"
# PDFium traps if an allocation fails.
_CRASHES = CRASHES | {-signal.SIGTRAP}

PageRequest = tuple[int, bool]  # page to read, counted from 0, and whether to search for tables


class Method(StrEnum):
    """How the text of a page was made."""

    TEXT_LAYER = "text-layer"
    NEEDS_OCR = "needs-ocr"
    OCR = "ocr"
    BLANK = "blank"
    FAILED = "failed"


class Rendering(StrEnum):
    """Pages to render."""

    NONE = "none"
    NEEDED = "needed"
    ALL = "all"


class ReadingSettings(NamedTuple):
    """Settings for all files.

    Attributes:
        seconds: CPU time limit for a page, and for opening a file.
        memory: memory limit of the child process, in bytes beyond its libraries.
        password: password for encrypted files, if any.
        min_confidence: pages with less confidence need OCR.
        min_characters: pages with pictures and fewer characters need OCR.
        max_images: share of the page above which pictures count.
        rendering: pages to render.
        longest: longer side of a rendering, in pixels.
        has_tables: whether to search for tables.
    """

    seconds: float
    memory: int
    password: str | None
    min_confidence: float
    min_characters: int
    max_images: float
    rendering: Rendering
    longest: int
    has_tables: bool


class PageReading(NamedTuple):
    """The result of reading a page.

    Attributes:
        lines: lines in reading order.
        image: the rendered page as a JPEG file, or None.
        problem: reason why the page was not read; empty on success.
        width, height: size in points.
        tables: number of tables, or None if the page was not searched.
        table_problem: reason why the page was not searched, if any.
    """

    lines: Sequence[PageLine] = ()
    method: Method = Method.FAILED
    confidence: float = 0.0
    image_share: float = 0.0
    width: float = 0.0
    height: float = 0.0
    image: bytes | None = None
    problem: str = ""
    tables: int | None = None
    table_problem: str = ""


class OpenedFile(NamedTuple):
    """The result of opening a file: its number of pages, or the problem."""

    page_count: int = 0
    problem: str = ""


class PdfReaderDiedError(Exception):
    """Raised if the child process ended for a reason other than a page."""


class PdfProcess:
    """Child process that reads one file at a time, and is restarted after a kill."""

    def __init__(self, settings: ReadingSettings) -> None:
        self._settings = settings
        self._path = ""
        self._fresh = False  # whether the child has not read a page yet
        self._begin()

    def _begin(self) -> None:
        self._is_open = False  # whether this child has opened the file
        self._child = start_child(_PROGRAM)
        self._finalizer = weakref.finalize(self, end_child, self._child)
        self._requests = cast("BinaryIO", self._child.stdin)
        self._answers = cast("BinaryIO", self._child.stdout)
        send_value(self._requests, self._settings)

    def open(self, path: str) -> OpenedFile:
        """Open a local file.

        Raises:
            PdfReaderDiedError: the child ended for a reason other than the file.
        """
        self._path, self._fresh = path, True
        answer = self._request(path)
        if isinstance(answer, str):
            return OpenedFile(problem=f"file {answer}")
        return cast("OpenedFile", answer)

    def read(self, index: int) -> PageReading:
        """Read a page of the open file, counted from 0.

        Raises:
            PdfReaderDiedError: the child ended for a reason other than the page.
        """
        was_fresh, self._fresh = self._fresh, False
        request = index, self._settings.has_tables
        answer = self._request(request)
        # Earlier pages may have used the memory, so try a crashed page in a fresh child.
        if answer == "crashed" and not was_fresh:
            answer = self._request(request)
        problem = answer
        if isinstance(problem, str) and self._settings.has_tables:
            answer = self._request((index, False))
        if isinstance(answer, str):
            return PageReading(problem=f"page {answer}")
        reading = cast("PageReading", answer)
        return reading if answer is problem else reading._replace(table_problem=f"page {problem}")

    def close(self) -> None:
        """Stop the child."""
        self._finalizer()

    def _request(self, request: str | PageRequest) -> object:
        """Return the child's answer, or the verb of a problem if the child was killed."""
        try:
            if not self._is_open and isinstance(request, tuple):
                send_value(self._requests, self._path)
                receive_value(self._answers)
            self._is_open = True
            send_value(self._requests, request)
            return receive_value(self._answers)
        except (EOFError, BrokenPipeError):
            code = self._child.wait()
            self._finalizer()
            self._begin()
        if code in OVERRUN:
            return "too slow"
        if code in _CRASHES:
            return "crashed"
        msg = f"the process that reads PDFs ended with {code}, possibly because memory ran out"
        raise PdfReaderDiedError(msg)


def serve() -> None:
    """Run the child process: read pages until the end of standard input."""
    requests, answers = prepare_child()
    logging.disable()  # libraries log every defect of a file
    settings = cast("ReadingSettings", receive_value(requests))
    # Load before memory is limited.
    import pypdfium2  # noqa: F401, PLC0415

    if settings.has_tables:
        import pdfplumber  # noqa: F401, PLC0415

    bound_memory(settings.memory)
    file: PdfFile | None = None
    while True:
        try:
            request = receive_value(requests)
        except EOFError:
            return
        set_timers(settings.seconds)
        answer: OpenedFile | PageReading
        if isinstance(request, str):
            if file is not None:
                file.close()
            file, answer = _open(request, settings)
        else:
            answer = _read(file, cast("PageRequest", request), settings)
        # Waiting for the next request must not count.
        set_timers(0)
        send_value(answers, answer)


def _open(path: str, settings: ReadingSettings) -> tuple[PdfFile | None, OpenedFile]:
    try:
        file = PdfFile(path, settings.password)
    except PdfError as error:
        return None, OpenedFile(problem=str(error))
    except MemoryError:
        return None, OpenedFile(problem="file took too much memory")
    return file, OpenedFile(file.page_count)


def _read(file: PdfFile | None, request: PageRequest, settings: ReadingSettings) -> PageReading:
    if file is None:  # the file was readable before the child was restarted
        return PageReading(problem="file changed")
    try:
        return _read_page(file, request, settings)
    except PdfError as error:
        return PageReading(problem=str(error))
    except MemoryError:
        return PageReading(problem="page took too much memory")
    except Exception:  # noqa: BLE001 - a page can trigger any error in a library
        return PageReading(problem="damaged page")


def _read_page(file: PdfFile, request: PageRequest, settings: ReadingSettings) -> PageReading:
    index, has_tables = request
    content = file.read_page(index)
    segments = list(join_segments(content.words))
    text = " ".join(each.text for each in segments)
    confidence = measure_confidence(text, content.unmapped)
    method = _choose_method(content, len(text), confidence, settings)
    is_needed = settings.rendering is Rendering.NEEDED and method is Method.NEEDS_OCR
    is_rendered = is_needed or settings.rendering is Rendering.ALL
    tables: list[LineSegment] | None = None
    problem = ""
    if has_tables and method is Method.TEXT_LAYER:
        tables, words, problem = _search_tables(file, index, content)
        segments = [*join_segments(words), *tables]
    return PageReading(
        arrange_lines(segments, content.height),
        method,
        1.0 if method is Method.BLANK else confidence,
        content.image_share,
        content.width,
        content.height,
        file.render_page(index, settings.longest) if is_rendered else None,
        tables=None if tables is None or problem else len(tables),
        table_problem=problem,
    )


def _search_tables(
    file: PdfFile, index: int, content: PageContent
) -> tuple[list[LineSegment], list[Word], str]:
    """Return the tables, the words outside of tables, and a problem, if any."""
    if not content.is_drawn:
        return [], content.words, ""  # most pages
    if content.objects > MOST_OBJECTS:
        return [], content.words, f"more than {MOST_OBJECTS} objects"
    try:
        return *cut_tables(content.words, find_grids(file.copy_drawings(index))), ""
    except MemoryError:
        return [], content.words, "page took too much memory"
    except Exception:  # noqa: BLE001 - pdfplumber raises arbitrary errors for damaged pages
        return [], content.words, "damaged page"


def _choose_method(
    content: PageContent, characters: int, confidence: float, settings: ReadingSettings
) -> Method:
    if not characters:
        # Scans have a picture, and some producers draw letters as shapes.
        return Method.NEEDS_OCR if content.objects > 0 else Method.BLANK
    is_scan = content.image_share >= settings.max_images and characters < settings.min_characters
    if is_scan or confidence < settings.min_confidence:
        return Method.NEEDS_OCR
    return Method.TEXT_LAYER
