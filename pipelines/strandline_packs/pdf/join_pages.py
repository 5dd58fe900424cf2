"""The stage `join-pages`: joins the pages of a document into a row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import find_column
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.pdf.page_process import Method
from strandline_packs.pdf.page_text import join_texts

DOCUMENT_PAGES_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("document", pa.string()),
        pa.field("first_page", pa.int32()),
        pa.field("last_page", pa.int32()),
        pa.field("pages", pa.int32()),
        pa.field("text", pa.string()),
        pa.field("confidence", pa.float64()),
        pa.field("ocr_pages", pa.int32()),
        pa.field("missing_pages", pa.int32()),
    ]
)
_MISSING = {Method.FAILED.value, Method.NEEDS_OCR.value}
_NEEDED = ("document", "page", "pages", "text", "method", "confidence")


class JoinPages(Stage):
    """Joins successive pages of a document in a task into a row.

    With `group`, a task has all pages of a document. Otherwise, a row has the pages of a task, and
    the page numbers in its key.
    """

    class Params(Stage.Params):
        """Configures unreadable pages."""

        max_missing: float = Field(
            default=1.0,
            ge=0,
            le=1,
            description="Maximum share of pages without a usable text: failed pages, and pages "
            "that need OCR. Other documents are dropped and counted.",
        )

    params: Params
    mixes_rows: ClassVar[bool] = True
    keeps_columns = False
    adds_columns = tuple(DOCUMENT_PAGES_SCHEMA.names)

    def list_needed_columns(self) -> tuple[str, ...]:
        return _NEEDED

    def process(self, task: Task) -> Task | None:
        """Join the pages of each document.

        Raises:
            MissingColumnError: the rows are not pages.
        """
        for name in _NEEDED:
            find_column(task.table, name)
        pages = task.table.select(_NEEDED).to_pylist()
        rows = [
            _join(document, list(group))
            for document, group in groupby(pages, key=lambda page: page["document"])
        ]
        kept = [row for row in rows if self._check(row)]
        return task.replace(pa.Table.from_pylist(kept, DOCUMENT_PAGES_SCHEMA)) if kept else None

    def _check(self, row: dict[str, Any]) -> bool:
        number = row["last_page"] - row["first_page"] + 1
        if row["missing_pages"] > self.params.max_missing * number:
            self.count("dropped: too many pages without text")
            return False
        if not row["text"]:
            self.count("dropped: no text")
            return False
        return True


def _join(document: str, pages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    good = [page for page in pages if page["method"] not in _MISSING]
    first, last = pages[0]["page"], pages[-1]["page"]
    is_whole = first == 1 and last == pages[0]["pages"]
    length = sum(len(page["text"]) for page in good)
    total = sum(page["confidence"] * len(page["text"]) for page in good)
    return {
        "key": document if is_whole else f"{document}#pages={first}-{last}",
        "document": document,
        "first_page": first,
        "last_page": last,
        "pages": pages[0]["pages"],
        "text": join_texts(page["text"] for page in good),
        "confidence": round(total / length, 4) if length else 0.0,
        "ocr_pages": sum(page["method"] == Method.OCR for page in good),
        # Dropped pages count, too.
        "missing_pages": last - first + 1 - len(good),
    }
