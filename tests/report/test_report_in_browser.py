"""The page in a browser: no errors, overlaps, overflow, or low contrast; keyboard access."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headless import NoBrowserError, Page, opened_page
from report_builders import HARM, crowded, facts_of, harmful, troubled
from strandline.cli.report.page import render_page

WIDTHS = (360, 420, 1280)
SCHEMES = ("light", "dark")
TAB, ENTER = ("Tab", 9), ("Enter", 13)
LOOK = (Path(__file__).parent / "look.js").read_text(encoding="utf-8")

# These tests need a browser. In the first tier, test_report_page.py reads the same pages' elements.
pytestmark = pytest.mark.more
shown = pytest.mark.parametrize(
    ("width", "scheme"), [(width, scheme) for width in WIDTHS for scheme in SCHEMES]
)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Provide a page of a browser. Without a browser, the tests are skipped, and fail in CI."""
    try:
        with opened_page(tmp_path_factory.mktemp("browser")) as page:
            yield page
    except NoBrowserError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture
def page(browser: Page) -> Page:
    """Provide the same page without recorded errors."""
    browser.troubles.clear()
    return browser


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """Provide the page of a run with content in every section."""
    return write(tmp_path, render_page(troubled()))


def write(folder: Path, text: str) -> Path:
    path = folder / "page.html"
    path.write_bytes(text.encode("utf-8", "replace"))
    return path


def look(page: Page, what: str) -> Any:
    """Return the result of a function of `look.js`."""
    return page.evaluate(f"(() => {{ {LOOK}\nreturn {what}; }})()")


@shown
def test_no_element_overflows_or_overlaps(page: Page, full: Path, width: int, scheme: str) -> None:
    page.open(full, width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert look(page, "findOverflow()") == []
    assert look(page, "findOverlaps()") == []
    assert look(page, "countTexts()") > 100
    assert page.troubles == []


@shown
def test_all_text_has_enough_contrast(page: Page, full: Path, width: int, scheme: str) -> None:
    page.open(full, width=width, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert look(page, "findPale(4.5)") == []
    pale = "p.note { color: #888888 !important }"
    page.evaluate(
        f"document.head.append(Object.assign(document.createElement('style'), "
        f"{{textContent: '{pale}'}}))"
    )
    assert look(page, "findPale(5.5)") != []  # the check detects low contrast


@pytest.mark.parametrize("change", ["h1 { width: 2000px }", "h2 { margin-top: -60px }"])
def test_a_broken_layout_is_found(page: Page, full: Path, change: str) -> None:
    page.open(
        write(full.parent, full.read_text().replace("</style>", f"{change}</style>")),
        width=360,
        scheme="light",
    )
    assert look(page, "findOverflow()") + look(page, "findOverlaps()") != []


def test_the_two_schemes_differ_and_follow_the_reader(page: Page, full: Path) -> None:
    grounds = []
    for scheme in SCHEMES:
        page.open(full, scheme=scheme)
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds[0] == "rgb(255, 255, 255)"
    assert grounds[0] != grounds[1]


def read_focus(page: Page) -> str:
    """Return the focused element; a frame gets the focus slightly after the key."""
    names = (str(look(page, "nameFocused()")) for _ in range(100))
    return next((name for name in names if not name.startswith("body.")), "body")


def test_tab_reaches_everything_in_order_with_visible_focus(page: Page, full: Path) -> None:
    page.open(full, scheme="light")
    wanted = look(page, "listInteractive()")
    assert len(wanted) > 12
    reached, outlines = [], set()
    for _ in wanted:
        page.press(*TAB)
        reached.append(read_focus(page))
        outlines.add(look(page, "hasOutline()"))
    assert reached == wanted
    assert outlines == {True}


def test_the_skip_link_comes_first_and_leads_to_the_sections(page: Page, full: Path) -> None:
    page.open(full, scheme="light")
    page.press(*TAB)
    assert page.evaluate("document.activeElement.textContent") == "Skip to the sections"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    page.press(*ENTER)
    assert page.evaluate("document.activeElement.id") == "main"


def test_enter_opens_details_and_closes_them(page: Page, full: Path) -> None:
    page.open(full, scheme="light")
    for number in range(look(page, "document.querySelectorAll('summary').length")):
        page.evaluate(f"document.querySelectorAll('summary')[{number}].focus()")
        opened = f"document.querySelectorAll('details')[{number}].open"
        before = page.evaluate(opened)
        page.press(*ENTER)
        assert page.evaluate(opened) is not before
        page.press(*ENTER)
        assert page.evaluate(opened) is before


@pytest.mark.parametrize("harm", HARM)
def test_no_hostile_text_runs_or_fetches(page: Page, tmp_path: Path, harm: str) -> None:
    page.open(write(tmp_path, render_page(harmful(harm))), scheme="light")
    # A sandboxed frame may log that it blocked a script. No other message is allowed.
    said = [trouble for trouble in page.troubles if "sandboxed" not in trouble]
    assert [trouble for trouble in said if "Content Security Policy" not in trouble] == []
    assert page.evaluate("document.title") != "taken"
    assert page.evaluate("document.scripts.length") == 0
    assert page.evaluate("location.protocol") == "file:"


def test_a_page_without_data_is_valid(page: Page, tmp_path: Path) -> None:
    path = write(tmp_path, render_page(facts_of()))
    for width in WIDTHS:
        page.open(path, width=width, scheme="dark")
        assert look(page, "findOverflow()") + look(page, "findOverlaps()") == []
    assert page.troubles == []


@pytest.mark.parametrize("width", WIDTHS)
def test_a_run_of_many_attempts_and_failures_has_room(
    page: Page, tmp_path: Path, width: int
) -> None:
    path = write(tmp_path, render_page(crowded()))
    page.open(path, width=width, scheme="dark")
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert look(page, "findOverflow()") + look(page, "findOverlaps()") == []
    assert page.troubles == []


@pytest.mark.parametrize("width", WIDTHS)
def test_a_caption_is_read_without_scrolling(page: Page, full: Path, width: int) -> None:
    page.open(full, width=width, scheme="light")
    assert look(page, "document.querySelectorAll('.scroll caption').length") > 5
    assert look(page, "findCutCaptions()") == []


def test_on_a_small_screen_a_row_keeps_its_name(page: Page, full: Path) -> None:
    for width, edge in ((420, 0), (1280, -300)):
        page.open(full, width=width, scheme="light")
        moved = page.evaluate(
            "(() => { const box = document.querySelector('#attempts .scroll');"
            "box.querySelector('table').style.width = '3000px'; box.scrollLeft = 300;"
            "return box.querySelector('tbody th').getBoundingClientRect().left - "
            "box.getBoundingClientRect().left; })()"
        )
        assert moved == pytest.approx(edge, abs=1)


def test_on_paper_there_is_no_navigation_and_all_is_dark_on_light(page: Page, full: Path) -> None:
    page.open(full, scheme="light")
    page.set_media("print", scheme="light")
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert look(page, "findPale(4.5)") == []
