"""PDF files are read page by page, in reading order, and bad pages fail alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from make_pdfs import JAPANESE, Document, format_document, list_documents
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont

from pdf_runs import end_children, read, read_with, start, start_alone
from raw_pdfs import draw_glyphs, write_hanging_form, write_pdf, write_stream
from strandline.data.files.opening import UnreadableFileError
from strandline_bench.products.pdf_pages import measure_errors
from strandline_packs.pdf import page_process
from strandline_packs.pdf.page_lines import Box
from strandline_packs.pdf.page_process import PdfReaderDiedError
from strandline_packs.pdf.pdf_file import PdfFile

DOCUMENTS = {each.kind: each for each in list_documents()}
MOST_ERRORS = {"report": 0.0, "paper": 0.005, "table": 0.0, "japanese": 0.0}


@pytest.fixture(autouse=True, scope="module")
def _ended() -> Iterator[None]:
    yield
    end_children()


@pytest.mark.parametrize("kind", MOST_ERRORS)
def test_kinds_of_documents_are_read_with_few_errors(kind: str) -> None:
    document = DOCUMENTS[kind]
    rows = read(format_document(document))
    assert list(range(1, len(document.pages) + 1)) == [row["page"] for row in rows]
    assert {"text-layer"} == {row["method"] for row in rows}
    for row, page in zip(rows, document.pages, strict=True):
        assert measure_errors(row["text"], page) <= MOST_ERRORS[kind], row["text"]


def test_paragraphs_are_kept_and_headers_removed() -> None:
    stage = start()
    rows = read_with(stage, format_document(DOCUMENTS["report"]))
    assert [text.count("\n\n") for text in DOCUMENTS["report"].pages] == [
        row["text"].count("\n\n") for row in rows
    ]
    assert 10 == stage.counters["removed: headers and footers"]
    kept = read(format_document(DOCUMENTS["report"]), removeRepeated=False)
    assert "Annual report" in kept[0]["text"]
    assert "Page 1 of 5" in kept[0]["text"]


def test_a_row_describes_its_page(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(format_document(DOCUMENTS["table"]))
    (row,) = start(column=None).rows([{"key": "a.pdf", "path": str(tmp_path / "a.pdf")}])
    del row["text"]
    assert {
        "key": "a.pdf#page=1",
        "document": "a.pdf",
        "page": 1,
        "pages": 1,
        "method": "text-layer",
        "confidence": 1.0,
        "image_share": 0.0,
        "width": 595.28,
        "height": 841.89,
        "problem": None,
        "page_image": None,
        "tables": None,
    } == row


def test_tasks_have_a_limited_number_of_pages() -> None:
    stage = start(pagesPerTask=2)
    content = format_document(DOCUMENTS["report"])
    tables = stage.tables([{"key": "a", "content": content}])
    assert [2, 2, 1] == [table.num_rows for table in tables]
    few = start(maxPages=2)
    assert 2 == len(read_with(few, content))
    assert 3 == few.counters["left out: pages after the first 2"]


def test_right_to_left_text_is_in_logical_order() -> None:
    text = "שומר המגדלור עלה במדרגות"
    (row,) = read(write_pdf([draw_glyphs(text[::-1], 100, 700)]))
    assert text == row["text"]


# Words of Arabic, of which PDFium leaves some from left to right, with the places of the letters.
@pytest.mark.parametrize(
    ("word", "lefts", "expected"),
    [
        ("تيزلا.", range(0, 60, 10), "الزيت."),
        ("الزيت.", range(60, 0, -10), "الزيت."),
        ("ab", (0, 9), "ab"),
    ],
)
def test_letters_of_right_to_left_words_are_turned_by_their_places(
    monkeypatch: pytest.MonkeyPatch, word: str, lefts: Sequence[int], expected: str
) -> None:
    def bound(_: PdfFile, __: object, at: int) -> Box:
        return lefts[at], 0.0, lefts[at] + 10.0, 10.0

    monkeypatch.setattr(PdfFile, "_bound_character", bound)
    found = PdfFile.__new__(PdfFile)._locate(None, word, 0, len(lefts))
    assert expected == found[0]


def test_vertical_lines_keep_the_order_of_the_content() -> None:
    def draw(canvas: Any, pages: Sequence[str]) -> None:
        pdfmetrics.registerFont(UnicodeCIDFont("HeiseiMin-W3", isVertical=True))
        canvas.setFont("HeiseiMin-W3", 14)
        for at in range(0, len(JAPANESE), 10):
            canvas.drawString(500 - 2 * at, 700, JAPANESE[at : at + 10])
        canvas.showPage()

    (row,) = read(format_document(Document("vertical", draw, ())))
    assert JAPANESE == row["text"]


def test_characters_beyond_the_first_plane_are_read() -> None:
    (row,) = read(format_document(DOCUMENTS["japanese"]))
    assert JAPANESE == row["text"].replace("\n", "")


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_rotated_pages_are_read_as_displayed(turn: int) -> None:
    place = {
        90: b"0 1 -1 0 %d %d Tm",
        180: b"-1 0 0 -1 %d %d Tm",
        270: b"0 -1 1 0 %d %d Tm",
    }[turn]
    steps = {90: (300, 100), 180: (400, 300), 270: (300, 700)}[turn]
    moves = {90: (20, 0), 180: (0, 20), 270: (-20, 0)}[turn]
    page = b""
    for at in (2, 0, 1):  # the order of the content is not the order of the lines
        left, bottom = steps[0] + moves[0] * at, steps[1] + moves[1] * at
        codes = f"line {at}".encode("utf-16-be").hex().encode()
        page += b"BT /F 12 Tf " + place % (left, bottom) + b" <%s> Tj ET\n" % codes
    (row,) = read(write_pdf([page], attributes=b"/Rotate %d" % turn))
    assert "line 0 line 1 line 2" == row["text"]


def test_text_without_unicode_values_needs_ocr() -> None:
    page = b"".join(draw_glyphs("garbled text", 50, 700 - 20 * at) for at in range(5))
    (row,) = read(write_pdf([page], is_mapped=False))
    assert "needs-ocr" == row["method"]
    assert row["confidence"] < 0.7
    assert row["page_image"].startswith(b"\xff\xd8")


def test_ligatures_of_old_fonts_are_restored() -> None:
    text = "bene\x0cts of the a\x0bair, \x0dames, and su\x0eciently"
    (row,) = read(
        write_pdf([draw_glyphs(text, 50, 700)], is_mapped=False), render="none", minConfidence=0
    )
    assert "benefits of the affair, flames, and sufficiently" == row["text"]


def test_scans_need_ocr_and_blank_pages_do_not() -> None:
    (scan,) = read(format_document(DOCUMENTS["scan"]), longest=300, render="all")
    assert ("needs-ocr", 0.0, 1.0) == (scan["method"], scan["confidence"], scan["image_share"])
    (blank,) = read(write_pdf([b""]))
    assert ("blank", "", None) == (blank["method"], blank["text"], blank["page_image"])
    (shapes,) = read(write_pdf([b"0 0 100 100 re f"]), render="none", minConfidence=0)
    assert ("needs-ocr", None) == (shapes["method"], shapes["page_image"])


def test_encrypted_files_need_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    content = format_document(DOCUMENTS["locked"])
    stage = start()
    assert [] == read_with(stage, content)
    assert {"dropped: password needed": 1} == stage.counters
    monkeypatch.setenv("PDF_PASSWORD", "tide")
    (row,) = read(content, passwordVariable="PDF_PASSWORD")
    assert 0 == measure_errors(row["text"], "Annual report of the lighthouse "
                               + DOCUMENTS["locked"].pages[0] + " Page 1 of 1")  # fmt: skip


@pytest.mark.parametrize("content", [b"", b"%PDF-1.7\n", b"<html>", b"\0" * 5000])
def test_files_that_are_no_pdf_are_counted(content: bytes) -> None:
    stage = start()
    good = format_document(DOCUMENTS["table"])
    assert ["1.pdf"] == [row["document"] for row in read_with(stage, content, good)]
    assert 1 == stage.counters["dropped: not a readable PDF"]
    with pytest.raises(UnreadableFileError, match=r"0\.pdf: not a readable PDF"):
        read(content, badFiles="fail")


def test_a_missing_file_is_counted_or_fails(tmp_path: Path) -> None:
    row = {"key": "a", "path": str(tmp_path / "missing.pdf")}
    stage = start(column=None)
    assert [] == stage.rows([row])
    assert {"dropped: unreadable file": 1} == stage.counters
    with pytest.raises(UnreadableFileError, match="a: No such file"):
        start(column=None, badFiles="fail").rows([row])


def write_hanging() -> bytes:
    forms, resources = write_hanging_form()
    pages = [draw_glyphs("before", 50, 700), b"/X Do", draw_glyphs("after", 50, 700)]
    return write_pdf(pages, extra=forms, resources=resources)


def test_a_hanging_page_costs_only_itself() -> None:
    stage = start(timeoutSeconds=0.2)
    before, bad, after = read_with(stage, write_hanging())
    assert ("before", "after") == (before["text"], after["text"])
    assert ("failed", "page too slow", "") == (bad["method"], bad["problem"], bad["text"])
    assert 1 == stage.counters["failed: page too slow"]


def test_failed_pages_are_dropped_or_fail_the_source() -> None:
    page = draw_glyphs("good", 50, 700)
    # The second page is no object of the file.
    content = write_pdf([page, page, page]).replace(b"1002 0 R", b"1999 0 R")
    stage = start(badPages="drop")
    assert [1, 3] == [row["page"] for row in read_with(stage, content)]
    assert 1 == stage.counters["dropped: damaged page"]
    with pytest.raises(UnreadableFileError, match=r"0\.pdf: page 2: damaged page"):
        read(content, badPages="fail")


def test_a_page_that_takes_too_much_memory_costs_only_itself() -> None:
    bomb = write_stream(b" " * (66 << 20), packed=True)
    pages = [draw_glyphs("before", 50, 700), bomb, draw_glyphs("after", 50, 700)]
    stage = start(maxMemoryBytes=64 << 20)
    before, bad, after = read_with(stage, write_pdf(pages))
    assert ("before", "after") == (before["text"], after["text"])
    assert "failed" == bad["method"]


CHILD = """
import os
from strandline_packs.pdf import page_process as child
read = child._read
def fail(file, request, settings):
    {code}
    return read(file, request, settings)
child._read = fail
child.serve()
"""


def test_a_crash_is_tried_again_in_a_fresh_child(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    content, mark = format_document(DOCUMENTS["report"]), str(tmp_path / "crashed")
    once = f"request[0] == 1 and not os.path.exists({mark!r}) and (os.mkdir({mark!r}), os.abort())"
    code = f"{once}\n    request[0] == 3 and os.abort()"
    monkeypatch.setattr(page_process, "_PROGRAM", CHILD.format(code=code))
    rows = read_with(start_alone(), content)
    assert ["", "", "", "page crashed", ""] == [row["problem"] or "" for row in rows]


def test_a_killed_child_fails_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"os.kill(os.getpid(), {int(signal.SIGKILL)})"
    monkeypatch.setattr(page_process, "_PROGRAM", CHILD.format(code=code))
    with pytest.raises(PdfReaderDiedError, match="ended with -9, possibly because memory"):
        read_with(start_alone(), format_document(DOCUMENTS["table"]))


def test_the_child_ends_with_its_stage() -> None:
    stage = start_alone()
    read_with(stage, format_document(DOCUMENTS["table"]))
    child = stage.stage._process._child.pid
    os.kill(child, 0)
    stage.stage._process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_the_same_file_gives_the_same_rows() -> None:
    content = format_document(DOCUMENTS["paper"])
    assert read(content, render="all", longest=300) == read(content, render="all", longest=300)
