"""Pages become readable by OCR, and pages become documents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from make_pdfs import SENTENCES, Document, draw_scan, format_document

from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError
from strandline_bench.products.pdf_pages import measure_errors
from strandline_packs.pdf.ocr_engine import OcrEngine

SCAN = Document("scan", draw_scan, (SENTENCES[0],))


@pytest.fixture(autouse=True, scope="module")
def _shared() -> Iterator[None]:
    """Let all stages share an engine: its models take time to load."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("strandline_packs.pdf.ocr_pages.OcrEngine", cache(OcrEngine))
        yield


def make_page(page: int, **values: Any) -> dict[str, Any]:
    return {
        "key": f"a#page={page}",
        "document": "a",
        "page": page,
        "pages": 3,
        "text": f"Text {page}.",
        "method": "text-layer",
        "confidence": 1.0,
        "page_image": None,
    } | values


# Recognition takes seconds. In the first tier, the other tests load the models.
@pytest.mark.slow
@pytest.mark.more
def test_scanned_pages_are_recognized() -> None:
    reader = StageRun("read-pdf", column="content", longest=800)
    (row,) = reader.rows([{"key": "a", "content": format_document(SCAN)}])
    reader.stage.close()
    before = dict(os.environ)
    stage = StageRun("ocr-pages")
    assert before == dict(os.environ)  # a changed library path would break child processes
    (found,) = stage.rows([row])
    assert ("ocr", True) == (found["method"], found["confidence"] > 0.9)
    assert measure_errors(found["text"], SCAN.pages[0]) < 0.02
    assert "page_image" not in found
    assert {"pages: ocr": 1} == stage.counters


def test_other_pages_are_not_recognized() -> None:
    page = make_page(1, page_image=b"no picture")
    stage = StageRun("ocr-pages", keepImages=True)
    assert [page] == stage.rows([page])
    assert {} == stage.counters


@pytest.mark.parametrize("image", [None, b"no picture"])
def test_pages_without_a_picture_are_counted(image: bytes | None) -> None:
    pages = [make_page(1), make_page(2, method="needs-ocr", page_image=image)]
    stage = StageRun("ocr-pages")
    assert ["a#page=1"] == [row["key"] for row in stage.rows(pages)]
    assert {"dropped: no readable picture of the page": 1} == stage.counters
    with pytest.raises(UnreadableFileError, match="a#page=2: no readable picture"):
        StageRun("ocr-pages", badImages="fail").rows(pages)


def test_pages_of_a_document_become_a_row() -> None:
    pages = [
        make_page(1, text="Begun on a page"),
        make_page(2, text="and continued.", method="ocr", confidence=0.5),
        make_page(3, text="", method="failed", confidence=0.0),
    ]
    assert [
        {
            "key": "a",
            "document": "a",
            "first_page": 1,
            "last_page": 3,
            "pages": 3,
            "text": "Begun on a page and continued.",
            "confidence": round((15 + 7) / 29, 4),
            "ocr_pages": 1,
            "missing_pages": 1,
        }
    ] == StageRun("join-pages").rows(pages)


def test_a_part_of_a_document_has_its_pages_in_the_key() -> None:
    other = make_page(1, document="b", pages=1)
    rows = StageRun("join-pages").rows([make_page(2), make_page(3), other])
    assert ["a#pages=2-3", "b"] == [row["key"] for row in rows]


def test_documents_with_too_many_missing_pages_are_dropped() -> None:
    # Page 2 was dropped by an earlier stage.
    pages = [make_page(1), make_page(3, method="needs-ocr")]
    stage = StageRun("join-pages", maxMissing=0.5)
    assert [] == stage.rows(pages)
    assert {"dropped: too many pages without text": 1} == stage.counters
    empty = StageRun("join-pages")
    assert [] == empty.rows([make_page(1, pages=1, text="", method="blank")])
    assert {"dropped: no text": 1} == empty.counters
