"""Ruled tables become Markdown in the reading order, and nothing else changes."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reportlab.lib.colors import black
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import PageBreak

from pdf_runs import end_children, read, read_with, start, start_alone
from raw_pdfs import draw_glyphs, write_pdf
from strandline_packs.pdf import page_process
from strandline_packs.pdf.page_layout import arrange_lines
from strandline_packs.pdf.page_lines import (
    Box,
    Break,
    LineSegment,
    PageLine,
    Word,
    join_segments,
)
from strandline_packs.pdf.page_tables import cut_tables
from strandline_packs.pdf.repeated_lines import LinedPage, remove_repeated
from table_pdfs import MARKDOWN, TABLE, build_pdf, rule, write

BEFORE, AFTER = "The lamp was lit at dusk.", "it burned until dawn."


@pytest.fixture(autouse=True, scope="module")
def _ended() -> Iterator[None]:
    yield
    end_children()


def read_tables(content: bytes) -> tuple[str, int | None]:
    (row,) = read(content, tables=True)
    return row["text"], row["tables"]


@pytest.mark.parametrize("lines", ["GRID", "INNERGRID"])
def test_a_table_stands_where_it_is_read(lines: str) -> None:
    content = build_pdf(write(BEFORE), rule(TABLE, lines=lines), write(AFTER))
    stage = start(tables=True)
    (row,) = read_with(stage, content)
    assert f"{BEFORE}\n\n{MARKDOWN}\n\n{AFTER}" == row["text"]
    assert 1 == row["tables"] == stage.counters["tables: found"]


def test_cells_are_escaped_joined_and_empty() -> None:
    wrapped = write("The keeper wrote a report every morning.")
    rows = (("a|b", "two\nlines", wrapped), ("", "Straße", "electro-\nmagnetic"), ("all", "", ""))
    merged = (("SPAN", (0, 2), (2, 2)), ("SPAN", (0, 0), (0, 1)))
    assert (
        "| a\\|b | two lines | The keeper wrote a report every morning. |\n| --- | --- | --- |\n"
        "|  | Straße | electromagnetic |\n| all |  |  |",
        1,
    ) == read_tables(build_pdf(rule(rows, *merged)))


def test_a_table_on_two_pages_is_two_tables() -> None:
    rows = [TABLE[0], *[(f"Month {at}", at, at * at) for at in range(60)]]
    pages = read(build_pdf(rule(rows, repeatRows=1)), tables=True)
    assert [1, 1] == [page["tables"] for page in pages]
    assert all(page["text"].startswith("| Month | Ships | Storms |\n| ---") for page in pages)
    assert 60 == sum(page["text"].count("| Month ") for page in pages) - len(pages)


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_tables_of_rotated_and_cropped_pages_are_found(turn: int) -> None:
    file = io.BytesIO()
    canvas = Canvas(file, (600, 800), invariant=1, cropBox=(20, 10, 590, 780))
    canvas.setPageRotation(turn)
    canvas.translate(*{0: (0, 0), 90: (600, 0), 180: (600, 800), 270: (0, 800)}[turn])
    canvas.rotate(turn)
    table = rule(TABLE)
    table.wrapOn(canvas, 500, 500)
    table.drawOn(canvas, 100, 300)
    canvas.save()
    assert (MARKDOWN, 1) == read_tables(file.getvalue())


def test_columns_and_their_tables_are_read_one_after_the_other() -> None:
    file = io.BytesIO()
    canvas = Canvas(file, (600, 800), invariant=1)
    for side in (0, 1):
        for at in (*range(5), *range(12, 17)):
            canvas.drawString(40 + 300 * side, 700 - 12 * at, f"{'LR'[side]}{at} " + "o" * 30)
    table = rule(TABLE, widths=60)
    table.wrapOn(canvas, 500, 500)
    table.drawOn(canvas, 340, 580)
    canvas.save()
    text, _ = read_tables(file.getvalue())
    assert text.count("L") == text[: text.index("R")].count("L")
    assert "R4 " in text[: text.index(MARKDOWN)]
    assert "R12 " in text[text.index(MARKDOWN) :]


def test_a_note_beside_a_table_does_not_get_into_it() -> None:
    note, table = LineSegment("note", 300, 640, 340, 660), LineSegment(MARKDOWN, 50, 600, 250, 700)
    lines = arrange_lines([note, table._replace(is_table=True)], 800)
    assert {"note", MARKDOWN} == {line.text for line in lines}


def test_tables_that_differ_in_numbers_are_no_headers() -> None:
    def read_tops(*tables: str) -> list[int]:
        lines = [[PageLine(each, Break.COLUMN, 0.1)] for each in tables]
        pages = [LinedPage(at, each, at) for at, each in enumerate(lines)]
        return [removed for _, removed in remove_repeated(pages)]

    assert [0, 0, 0] == read_tops(*(f"| {at} |" for at in range(3)))
    assert [1, 1, 1] == read_tops(*["| Letterhead |"] * 3)


PLAIN = {
    "no rules": rule(TABLE, lines="NONE"),
    "a rule below the header": rule(
        TABLE, ("LINEBELOW", (0, 0), (-1, 0), 1, black), lines="LINEAFTER"
    ),
    "horizontal rules": rule(TABLE, lines="LINEBELOW"),
    "a box": rule([["In a box"]], lines="BOX"),
    "a list in columns": rule([["one\ntwo\nsix", "tea\nrum\noil"], ["ten", "ale"]]),
    "an empty grid": rule([["", ""]] * 3 + [["", "x"], ["y", ""]]),
}


@pytest.mark.parametrize("kind", PLAIN)
def test_other_content_is_left_as_it_is(kind: str) -> None:
    content = build_pdf(write(BEFORE), PLAIN[kind], write(AFTER))
    (row,) = read(content)
    assert (row["text"], 0) == read_tables(content)
    assert row["tables"] is None


def test_right_to_left_tables_begin_at_the_right() -> None:
    words = [["שמאל", "ימין"], ["אור", "ים"]]
    page = b"".join(
        draw_glyphs(words[row][column][::-1], 110 + 100 * column, 710 - 30 * row)
        for row in (0, 1)
        for column in (0, 1)
    )
    page += b"".join(b"100 %d m 300 %d l S " % (y, y) for y in (670, 700, 730))
    page += b"".join(b"%d 670 m %d 730 l S " % (x, x) for x in (100, 200, 300))
    assert ("| ימין | שמאל |\n| --- | --- |\n| ים | אור |", 1) == read_tables(write_pdf([page]))


CHILD = """
from strandline_packs.pdf import page_process as child
copy = child.PdfFile.copy_drawings
def fail(file, index):
    if index == 0: raise KeyError("Length")
    if index == 1: raise MemoryError
    while index == 2: pass
    return copy(file, index)
child.PdfFile.copy_drawings = fail
child.serve()
"""


def test_a_page_whose_search_fails_keeps_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_process, "_PROGRAM", CHILD)
    stage = start_alone(tables=True, timeoutSeconds=0.4, removeRepeated=False)
    pages = [part for _ in range(4) for part in (rule(TABLE), PageBreak())]
    rows = read_with(stage, build_pdf(*pages))
    assert [None, None, None, 1] == [row["tables"] for row in rows]
    assert {"Month Ships Storms"} == {row["text"].split("\n")[0] for row in rows[:3]}
    assert {
        "pages: text-layer": 4,
        "tables: found": 1,
        "tables: not searched, damaged page": 1,
        "tables: not searched, page took too much memory": 1,
        "tables: not searched, page too slow": 1,
    } == stage.counters


def test_a_page_with_too_many_objects_is_not_searched() -> None:
    stage = start(tables=True)
    page = draw_glyphs("A map", 50, 700) + b"0 0 m 9 9 l S " * 5001
    assert ["A map"] == [row["text"] for row in read_with(stage, write_pdf([page]))]
    assert 1 == stage.counters["tables: not searched, more than 5000 objects"]


def test_without_a_search_the_library_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import sys; from strandline_packs.pdf import page_process as child; read = child._read\n"
        "def check(*arguments):\n    assert 'pdfplumber' not in sys.modules\n"
        "    return read(*arguments)\nchild._read = check; child.serve()"
    )
    monkeypatch.setattr(page_process, "_PROGRAM", program)
    assert 1 == len(read_with(start_alone(), build_pdf(rule(TABLE))))


EDGES = st.lists(st.integers(0, 60), min_size=3, max_size=5, unique=True).map(sorted)
WORDS = st.lists(st.tuples(st.integers(-5, 65), st.integers(-5, 65)), max_size=30)


@given(EDGES, EDGES, WORDS)
def test_law_tables_lose_no_word(
    across: list[int], up: list[int], places: list[tuple[int, int]]
) -> None:
    grid: list[list[Box | None]] = [
        [(across[x], up[y], across[x + 1], up[y + 1]) for x in range(len(across) - 1)]
        for y in reversed(range(len(up) - 1))
    ]
    words: list[Word] = [(f"w{at}", (x, y, x + 1, y + 1)) for at, (x, y) in enumerate(places)]
    tables, remaining = cut_tables(words, [grid, grid])
    assert len(tables) <= 1
    found = Counter(" ".join(each.text for each in [*tables, *join_segments(remaining)]).split())
    assert [1] * len(words) == [found[word] for word, _ in words]
