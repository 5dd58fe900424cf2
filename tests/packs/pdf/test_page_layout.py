"""Reading order, paragraphs, repaired words, and the removal of headers, on lines alone."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_packs.pdf.page_layout import arrange_lines
from strandline_packs.pdf.page_lines import Break, LineSegment, PageLine
from strandline_packs.pdf.page_text import (
    join_lines,
    join_texts,
    measure_confidence,
    repair_characters,
)
from strandline_packs.pdf.repeated_lines import REACH, LinedPage, remove_repeated

PROSE = "The keeper climbed the stairs of the lighthouse with a can of oil. " * 4


def put(text: str, left: float, top: float, order: int, width: float = 200) -> LineSegment:
    return LineSegment(text, left, top - 10, left + width, top, order)


def read(segments: list[LineSegment]) -> list[str]:
    return [line.text for line in arrange_lines(segments, 800)]


def make_columns(by_rows: bool, *, lines: int = 5, width: float = 200) -> list[LineSegment]:
    cells = [(side, at) for side in (0, 1) for at in range(lines)]
    if by_rows:
        cells.sort(key=lambda cell: cell[1])
    return [
        put(f"{'LR'[side]}{at}", 50 + 230 * side, 700 - 12 * at, order, width)
        for order, (side, at) in enumerate(cells)
    ]


IN_COLUMNS = [f"{side}{at}" for side in "LR" for at in range(5)]


def test_columns_are_read_one_after_the_other() -> None:
    assert IN_COLUMNS == read(make_columns(by_rows=False))


def test_wide_columns_that_are_stored_row_by_row_are_read_as_columns() -> None:
    assert IN_COLUMNS == read(make_columns(by_rows=True))


def test_rows_of_a_table_stay_together() -> None:
    segments = make_columns(by_rows=True, width=40)
    lines = arrange_lines(segments, 800)
    assert [f"L{at} R{at}" for at in range(5)] == [line.text for line in lines]
    assert {Break.LINE} == {line.start for line in lines[1:]}


def test_a_title_across_columns_is_read_first_and_a_footnote_last() -> None:
    title, note = put("Title", 50, 740, 0, 430), put("Note", 50, 500, 20, 430)
    assert ["Title", *IN_COLUMNS, "Note"] == read([note, *make_columns(by_rows=False), title])


def test_a_figure_across_columns_divides_the_page_into_bands() -> None:
    upper = make_columns(by_rows=False, lines=3)
    lower = [each._replace(top=each.top - 200, bottom=each.bottom - 200) for each in upper]
    caption = put("Caption", 50, 600, 9, 430)
    order = ["L0", "L1", "L2", "R0", "R1", "R2"]
    assert [*order, "Caption", *order] == read([*upper, caption, *lower])


def test_right_to_left_columns_begin_at_the_right() -> None:
    words = {"L": "שמאל", "R": "ימין"}
    segments = [
        each._replace(text=f"{words[each.text[0]]} {each.text[1]}")
        for each in make_columns(by_rows=False)
    ]
    lines = read(segments)
    assert ["ימין 0", "שמאל 0"] == [lines[0], lines[5]]


def test_words_of_a_line_are_ordered_by_position_and_direction() -> None:
    assert ["first second"] == read([put("second", 260, 700, 0), put("first", 50, 700, 1)])
    assert ["ראשון שני"] == read([put("שני", 50, 700, 0), put("ראשון", 260, 701, 1)])


@given(st.permutations(make_columns(by_rows=False, lines=4)))
def test_law_no_segment_is_lost_or_repeated(segments: list[LineSegment]) -> None:
    found = [word for line in read(segments) for word in line.split()]
    assert sorted(each.text for each in segments) == sorted(found)


@given(
    st.lists(
        st.tuples(*[st.floats(-1e4, 1e4, width=32)] * 2, st.floats(0, 500, width=32)), max_size=60
    )
)
def test_law_any_layout_keeps_all_words(boxes: list[tuple[float, float, float]]) -> None:
    segments = [put(f"w{at}", *box[:2], at, box[2]) for at, box in enumerate(boxes)]
    words = [word for line in read(segments) for word in line.split()]
    assert sorted(f"w{at}" for at in range(len(boxes))) == sorted(words)


def lines(*texts: str, start: Break = Break.FLOW) -> list[PageLine]:
    return [PageLine(text, start, 0.5) for text in texts]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["electro-", "magnetic"], "electromagnetic"),
        (["electro\xad", "magnetic"], "electromagnetic"),
        (["a well-", "known well-known man"], "a well-known well-known man"),
        (["Jean-", "Paul"], "Jean-Paul"),
        (["pages 5-", "7"], "pages 5-7"),
        (["he paused -", "and left"], "he paused - and left"),
        (["灯台守は", "毎晩"], "灯台守は毎晩"),
        (["등대지기는", "매일"], "등대지기는 매일"),
        (["one", "two"], "one two"),
    ],
)
def test_lines_of_a_paragraph_are_joined(texts: list[str], expected: str) -> None:
    assert expected == join_lines(lines(*texts))


def test_breaks_are_kept() -> None:
    marked = [
        PageLine("Title", Break.COLUMN, 0.1),
        PageLine("One", Break.PARAGRAPH, 0.2),
        PageLine("two,", Break.FLOW, 0.3),
        PageLine("three", Break.COLUMN, 0.1),
        PageLine("• item", Break.LINE, 0.2),
        PageLine("Other", Break.COLUMN, 0.2),
    ]
    assert "Title\n\nOne two, three\n• item\n\nOther" == join_lines(marked)


def test_paragraphs_and_short_lines_are_found_by_distance_and_width() -> None:
    tops = [700, 688, 676, 640, 628]
    widths = [400, 400, 150, 400, 300]
    segments = [
        put(f"t{at}", 50, top, at, width)
        for at, (top, width) in enumerate(zip(tops, widths, strict=True))
    ]
    starts = [line.start for line in arrange_lines(segments, 800)]
    assert [Break.COLUMN, Break.FLOW, Break.FLOW, Break.PARAGRAPH, Break.FLOW] == starts
    short = [each._replace(right=each.left + 100) if each.order == 3 else each for each in segments]
    assert Break.LINE is arrange_lines(short, 800)[-1].start


def test_sentences_continue_on_the_next_page() -> None:
    assert "The lamp was lit." == join_texts(["The lamp was", "", "lit."])
    assert "The lighthouse" == join_texts(["The light-", "house"])
    assert "Done.\n\nThen" == join_texts(["Done.", "Then"])
    assert "| a table |\n\nafter" == join_texts(["| a table |", "after"])


def test_presentation_forms_become_letters() -> None:
    assert "office ﷼" == repair_characters("o\ufb03ce\x00 \ufdfc")
    assert "人 سلا" == repair_characters("\u2f08\u00a0\ufeb3\ufefc"[:4]).replace("سلا", "سلا")


@pytest.mark.parametrize(
    ("text", "unmapped", "is_good"),
    [
        (PROSE, 0.0, True),
        ("灯台守は毎晩、油の缶を持って階段を上った。", 0.0, True),
        ("Zażółć gęślą jaźń, a potem pójdź w stronę światła latarni morskiej. " * 4, 0.0, True),
        ("12 7 31 2 58 0 " * 9, 0.0, True),
        ("\uf041\uf042 \uf043" * 30, 0.0, False),
        ("\ufffd" * 30, 0.0, False),
        ("".join(chr(ord(sign) - 29) if sign > "=" else sign for sign in PROSE), 0.0, False),
        (PROSE, 1.0, True),  # old fonts
        (PROSE[:90], 0.9, False),
        ("", 0.0, False),
    ],
)
def test_garbled_text_has_a_low_confidence(text: str, unmapped: float, is_good: bool) -> None:
    assert is_good is (measure_confidence(text, unmapped) >= 0.7)


def make_pages(number: int, seed: int = 0) -> list[LinedPage[int]]:
    dice = random.Random(seed)
    return [
        LinedPage(
            at,
            [
                PageLine(f"Report {at // 40}", Break.COLUMN, 0.03),
                PageLine("Opening " + "".join(dice.choices("abcdefgh", k=9)), Break.FLOW, 0.1),
                PageLine("Middle", Break.FLOW, 0.5),
                PageLine(f"Page {at + 1}", Break.COLUMN, 0.97),
            ],
            at,
        )
        for at in range(1, number + 1)
    ]


@pytest.mark.parametrize("number", [3, 11, 12, 21, 22, 50])
def test_headers_and_page_numbers_are_removed(number: int) -> None:
    found = list(remove_repeated(make_pages(number)))
    assert list(range(1, number + 1)) == [page.number for page, _ in found]
    assert {2} == {removed for _, removed in found}
    assert {("Opening", "Middle")} == {
        tuple(line.text.split()[0] for line in page.lines) for page, _ in found
    }


def test_lines_of_two_pages_are_no_headers() -> None:
    assert [0, 0] == [removed for _, removed in remove_repeated(make_pages(2))]


def test_lines_of_distant_pages_are_no_headers() -> None:
    pages = [
        page._replace(lines=[PageLine("Same" if page.number % 11 == 1 else "", Break.COLUMN, 0.05)])
        for page in make_pages(56)
    ]
    found = [page.number for page, _ in remove_repeated(pages) if page.lines and page.lines[0].text]
    assert [1, 12, 23, 34, 45, 56] == found


def test_titles_of_alternating_pages_are_removed() -> None:
    pages = [
        page._replace(lines=[PageLine(("Left", "Right")[page.number % 2], Break.COLUMN, 0.05)])
        for page in make_pages(30)
    ]
    assert {1} == {removed for _, removed in remove_repeated(pages)}


def test_only_neighboring_pages_are_in_memory() -> None:
    taken = 0

    def count() -> Iterator[LinedPage[int]]:
        nonlocal taken
        for page in make_pages(100):
            taken += 1
            yield page

    for page, _ in remove_repeated(count()):
        assert taken <= page.number + REACH
