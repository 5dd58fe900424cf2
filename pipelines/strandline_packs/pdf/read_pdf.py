"""The stage `read-pdf`: reads PDF files page by page, in reading order."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import Field

from strandline.data.files.globs import is_url
from strandline.data.files.opening import (
    READ_ERRORS,
    BadInput,
    UnreadableFileError,
    explain_error,
    open_binary,
)
from strandline.data.tables.batching import cut_batches
from strandline.data.tables.columns import find_column, list_strings
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.pdf.page_process import (
    Method,
    PageReading,
    PdfProcess,
    ReadingSettings,
    Rendering,
)
from strandline_packs.pdf.page_text import join_lines
from strandline_packs.pdf.repeated_lines import LinedPage, remove_repeated

PAGE_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("document", pa.string()),
        pa.field("page", pa.int32()),
        pa.field("pages", pa.int32()),
        pa.field("text", pa.string()),
        pa.field("method", pa.string()),
        pa.field("confidence", pa.float64()),
        pa.field("image_share", pa.float64()),
        pa.field("width", pa.float64()),
        pa.field("height", pa.float64()),
        pa.field("problem", pa.string()),
        pa.field("page_image", pa.binary()),
        pa.field("tables", pa.int32()),
    ]
)
_TASK_BYTES = 16 << 20


class BadPage(StrEnum):
    """Options for pages that can't be read."""

    KEEP = "keep"
    DROP = "drop"
    FAIL = "fail"


class Document(NamedTuple):
    """A PDF to read: its key, and either a path or the bytes."""

    key: str
    path: str
    content: bytes | None


class ReadPdf(Stage):
    """Reads the PDF in `path` into a row per page: its text, how it was read, and how reliably.

    Tasks of several pages are emitted during reading.
    """

    class Params(Stage.Params):
        """Configures the input, the choice of OCR, renderings, and the limits of a page."""

        column: str | None = Field(
            default=None,
            min_length=1,
            description="Column with the bytes of the files. When unset, the stage reads the file "
            "in `path`.",
        )
        password_variable: str | None = Field(
            default=None,
            min_length=1,
            description="Environment variable with the password of encrypted files. Files that "
            "open without a password need none.",
        )
        pages_per_task: int = Field(
            default=32, ge=1, description="Maximum number of pages of a task."
        )
        max_pages: int = Field(
            default=20_000,
            ge=1,
            description="Maximum number of pages of a file; others are left out and counted.",
        )
        remove_repeated: bool = Field(
            default=True,
            description="Remove headers, footers, and page numbers: lines at the edge of a page "
            "that at least three of the 21 surrounding pages have.",
        )
        tables: bool = Field(
            default=False,
            description="Search pages with a text layer for ruled tables, and write them in `text` "
            "as Markdown.",
        )
        min_confidence: float = Field(
            default=0.7,
            ge=0,
            le=1,
            description="Minimum confidence of a text layer. Pages below need OCR: characters "
            "without Unicode values, private or invalid characters, or Latin text almost without "
            "vowels.",
        )
        min_characters: int = Field(
            default=200,
            ge=0,
            description="Minimum number of characters of a page that pictures cover. Pages below "
            "need OCR.",
        )
        max_images: float = Field(
            default=0.5,
            ge=0,
            le=1,
            description="Share of a page from which pictures count as covering the page.",
        )
        render: Rendering = Field(
            default=Rendering.NEEDED,
            description="Pages to render as JPEG files in `page_image`: `none`, pages for which "
            "OCR is `needed`, or `all`.",
        )
        longest: int = Field(
            default=1600,
            ge=64,
            description="Maximum length of the longer side of a rendering in pixels; at most 300 "
            "pixels per inch.",
        )
        timeout_seconds: float = Field(
            default=30.0,
            gt=0,
            description="Maximum processor time for a page, and for opening a file.",
        )
        max_memory_bytes: int = Field(
            default=1 << 30,
            ge=1 << 26,
            description="Maximum memory of the process that reads pages, beyond its libraries.",
        )
        bad_files: BadInput = Field(
            default=BadInput.DROP,
            description="Treatment of files that are not PDFs, are damaged, or need another "
            "password: `drop` and count them, or `fail` the source.",
        )
        bad_pages: BadPage = Field(
            default=BadPage.KEEP,
            description="Treatment of pages that are damaged, or exceed a limit: `keep` a row "
            "without text and with the reason in `problem`, `drop` and count them, or `fail` the "
            "source.",
        )

    params: Params
    packages: ClassVar[tuple[str, ...]] = ("PIL", "pdfplumber", "pypdfium2")
    keeps_columns = False
    adds_columns = tuple(PAGE_SCHEMA.names)

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", self.params.column or "path")

    def setup(self) -> None:
        """Prepare the settings. The child process starts with the first file."""
        params = self.params
        variable = params.password_variable
        self._settings = ReadingSettings(
            params.timeout_seconds,
            params.max_memory_bytes,
            None if variable is None else os.environ.get(variable),
            params.min_confidence,
            params.min_characters,
            params.max_images,
            params.render,
            params.longest,
            params.tables,
        )
        self._process: PdfProcess | None = None

    def process(self, task: Task) -> Iterator[Task]:
        """Yield tasks of up to `pagesPerTask` pages of one file.

        Raises:
            MissingColumnError: the table names no files.
            UnreadableFileError: during iteration, if a file or page can't be read and `badFiles` or
                `badPages` is `fail`.
            PdfReaderDiedError: during iteration, if the child process ended for a reason other than
                the file.
        """
        keys = list_strings(task.table, "key")
        if self.params.column is None:
            paths = list_strings(task.table, "path")
            documents = [Document(*pair, None) for pair in zip(keys, paths, strict=True)]
            return self._read_all(task, iter(documents))
        contents = find_column(task.table, self.params.column)
        pairs = zip(keys, contents, strict=True)
        # Copy one file at a time out of the table.
        return self._read_all(task, (Document(key, "", each.as_py() or b"") for key, each in pairs))

    def close(self) -> None:
        """Stop the child process."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _read_all(self, task: Task, documents: Iterator[Document]) -> Iterator[Task]:
        for document in documents:
            rows = self._tolerate(document)
            for batch in cut_batches(rows, _measure, self.params.pages_per_task, _TASK_BYTES):
                yield task.replace(pa.Table.from_pylist(batch, PAGE_SCHEMA))

    def _tolerate(self, document: Document) -> Iterator[dict[str, Any]]:
        try:
            with _store_locally(document) as path:
                yield from self._read_file(document.key, path)
        except READ_ERRORS as error:
            self._reject(document.key, "unreadable file", error)

    def _read_file(self, key: str, path: str) -> Iterator[dict[str, Any]]:
        if self._process is None:
            self._process = PdfProcess(self._settings)
        opened = self._process.open(path)
        if opened.problem or not opened.page_count:
            self._reject(key, opened.problem or "no pages", None)
            return
        count = min(opened.page_count, self.params.max_pages)
        if opened.page_count > count:
            self.count(f"left out: pages after the first {count}", opened.page_count - count)
        pages = self._read_pages(key, count)
        if self.params.remove_repeated:
            pages = self._remove_repeated(pages)
        for page in pages:
            yield _build_row(key, opened.page_count, page)

    def _remove_repeated(
        self, pages: Iterator[LinedPage[PageReading]]
    ) -> Iterator[LinedPage[PageReading]]:
        for page, removed in remove_repeated(pages):
            if removed:
                self.count("removed: headers and footers", removed)
            yield page

    def _read_pages(self, key: str, count: int) -> Iterator[LinedPage[PageReading]]:
        assert self._process is not None
        for number in range(1, count + 1):
            page = self._process.read(number - 1)
            if page.problem and self.params.bad_pages is BadPage.FAIL:
                msg = f"{key}: page {number}: {page.problem}"
                raise UnreadableFileError(msg)
            if page.problem and self.params.bad_pages is BadPage.DROP:
                self.count(f"dropped: {page.problem}")
                continue
            self.count(f"failed: {page.problem}" if page.problem else f"pages: {page.method}")
            if page.tables:
                self.count("tables: found", page.tables)
            if page.table_problem:
                self.count(f"tables: not searched, {page.table_problem}")
            yield LinedPage(number, page.lines, page)

    def _reject(self, key: str, reason: str, error: Exception | None) -> None:
        if self.params.bad_files is BadInput.FAIL:
            if error is not None:
                raise explain_error(key, error) from error
            msg = f"{key}: {reason}"
            raise UnreadableFileError(msg)
        self.count(f"dropped: {reason}")


@contextmanager
def _store_locally(document: Document) -> Iterator[str]:
    """Return the path of a local copy if the document is not a local file."""
    if document.content is None and not is_url(document.path):
        with open_binary(document.path):  # report an unreadable file as other stages do
            yield document.path
        return
    with tempfile.NamedTemporaryFile(suffix=".pdf") as copy:
        if document.content is not None:
            copy.write(document.content)
        else:
            with open_binary(document.path) as file:
                shutil.copyfileobj(file, copy)
        copy.flush()
        yield copy.name


def _build_row(key: str, count: int, page: LinedPage[PageReading]) -> dict[str, Any]:
    reading = page.content
    return {
        "key": f"{key}#page={page.number}",
        "document": key,
        "page": page.number,
        "pages": count,
        "text": join_lines(page.lines),
        "method": (Method.FAILED if reading.problem else reading.method).value,
        "confidence": reading.confidence,
        "image_share": reading.image_share,
        "width": round(reading.width, 2),
        "height": round(reading.height, 2),
        "problem": reading.problem or None,
        "page_image": reading.image,
        "tables": reading.tables,
    }


def _measure(row: dict[str, Any]) -> int:
    return len(row["text"]) + len(row["page_image"] or b"")
