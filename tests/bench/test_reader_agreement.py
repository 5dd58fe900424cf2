"""Pages are correct if their known text is found, and our reader handles an odd crawl."""

from __future__ import annotations

from pathlib import Path

from strandline_bench.text.odd_crawl import list_pages, write_odd_crawl
from strandline_bench.text.readers import count_right, format_rows, name_oddity, read_ours


def test_our_reader_handles_every_body_and_declared_charset(tmp_path: Path) -> None:
    pages = write_odd_crawl(tmp_path)
    right = count_right(pages, read_ours(tmp_path / "odd.warc.gz"))
    wrong = [name_oddity(page) for page in pages]
    for name, count in right.items():
        for _ in range(count):
            wrong.remove(name)
    # If nothing declares the charset, or the server declares a wrong but valid one, readers must
    # guess.
    assert len(wrong) <= 3
    assert set(wrong) <= {"charset: told by nobody", "charset: told wrongly by the server"}


def test_a_page_with_other_text_is_wrong() -> None:
    pages = list(list_pages())[:8]
    texts = {page.url: page.sentence for page in pages[:3]} | {pages[3].url: "�"}
    right = count_right(pages, texts)
    assert 3 == right.total()
    table = format_rows(pages, {"ours": right})
    assert "| all | 8 | 3 |" in table


def test_the_crawl_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    assert write_odd_crawl(first) == write_odd_crawl(second)
    assert (first / "odd.warc.gz").read_bytes() == (second / "odd.warc.gz").read_bytes()
