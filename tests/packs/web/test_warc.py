"""WARC files read whole, in ranges, and damaged: a bad record costs only itself."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_crawl import format_record, pack

from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError
from web_archive import Page, format_archive, format_page, write_pages

PAGES = write_pages(24)
GOOD = [page for page in PAGES if page.head.startswith("HTTP/1.1 200") and "image" not in page.head]
HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/html"


def read(path: str, *, length: int | None = None, **params: Any) -> tuple[list[Any], StageRun]:
    """Return the rows of a file, and the stage."""
    stage = StageRun("read-warc", **params)
    rows = []
    for source in StageRun("warc-files", paths=[path], rangeBytes=length).sources():
        for task in stage.tables(source.data.to_pylist()):
            rows.extend(task.to_pylist())
    return rows, stage


def count_dropped(stage: StageRun) -> dict[str, int]:
    """Return the counters of dropped pages, without those of other record types."""
    return {name: n for name, n in stage.counters.items() if name.startswith("dropped: ")}


def list_urls(rows: list[Any]) -> list[str]:
    return [row["url"] for row in rows]


def make_page(number: int, body: bytes = b"<html>hello</html>") -> Page:
    return Page(f"https://a.example/{number}", "prose", "en", HEAD, body)


@pytest.mark.parametrize(
    ("name", "wrap"),
    [
        ("a.warc.gz", lambda records: b"".join(map(pack, records))),
        ("a.warc", b"".join),
        ("a.warc.bz2", lambda records: bz2.compress(b"".join(records))),
        ("a.warc.zst", lambda records: pa.compress(b"".join(records), codec="zstd", asbytes=True)),
    ],
)
def test_pages_are_read_in_order_whatever_packs_them(
    tmp_path: Path, name: str, wrap: Callable[[list[bytes]], bytes]
) -> None:
    (tmp_path / name).write_bytes(wrap(list(format_archive(PAGES))))
    rows, stage = read(f"{tmp_path}/{name}")
    assert [page.url for page in GOOD] == list_urls(rows)
    assert [page.body for page in GOOD] == [row["content"] for row in rows]
    assert "iso-8859-2" in {row["charset"] for row in rows}
    assert {"2026-05-04T03:02:01Z"} == {row["date"] for row in rows}
    assert all(row["id"].startswith("<urn:uuid:") for row in rows)
    assert len(rows) == len({row["key"] for row in rows})
    dropped = len(PAGES) - len(GOOD)
    assert dropped == sum(count_dropped(stage).values())
    others = {"passed over: request record": len(PAGES), "passed over: warcinfo record": 1}
    assert others == {name: stage.counters[name] for name in others}


def test_records_that_are_no_pages_are_counted_by_reason(tmp_path: Path) -> None:
    pages = write_pages(54)
    (tmp_path / "a.warc.gz").write_bytes(b"".join(map(pack, format_archive(pages))))
    kinds = [page.kind for page in pages]
    _, stage = read(f"{tmp_path}/a.warc.gz")
    assert {
        "dropped: other status": kinds.count("missing"),
        "dropped: other content type": kinds.count("image"),
    } == count_dropped(stage)
    everything, stage = read(f"{tmp_path}/a.warc.gz", contentTypes=[], statuses=[])
    assert len(pages) == len(everything)
    assert {} == count_dropped(stage)


def test_a_url_of_any_store_is_read() -> None:
    with fsspec.open("memory://crawl/a.warc.gz", "wb") as file:
        file.write(b"".join(map(pack, format_archive(PAGES))))
    rows, _ = read("memory://crawl/*.warc.gz", length=1000)
    assert [page.url for page in GOOD] == list_urls(rows)


def test_tasks_are_bounded_by_rows_and_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(b"".join(format_page(make_page(n, b"<html>" + b"x" * 1000)) for n in range(7)))
    (source,) = StageRun("warc-files", paths=[str(path)]).sources()
    by_rows = StageRun("read-warc", maxRows=3).tables(source.data.to_pylist())
    assert [3, 3, 1] == [table.num_rows for table in by_rows]
    by_bytes = StageRun("read-warc", maxTaskBytes=2000).tables(source.data.to_pylist())
    assert [2, 2, 2, 1] == [table.num_rows for table in by_bytes]


def test_ranges_are_listed_without_opening_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    path.write_bytes(b"x" * 2500)
    sources = StageRun("warc-files", paths=[str(path)], rangeBytes=1000).sources()
    assert [f"{path}#bytes={start}-{start + 999}" for start in (0, 1000, 2000)] == [
        source.key for source in sources
    ]
    assert {(0, 1000), (1000, 2000), (2000, 3000)} == {
        (row["start"], row["stop"]) for source in sources for row in source.data.to_pylist()
    }
    (tmp_path / "b.warc.zst").write_bytes(b"x" * 2500)
    (whole,) = StageRun("warc-files", paths=[f"{tmp_path}/b*"], rangeBytes=1000).sources()
    assert whole.key == f"{tmp_path}/b.warc.zst"


@pytest.mark.parametrize("suffix", [".warc", ".warc.gz"])
def test_a_range_reads_only_records_that_begin_in_it(tmp_path: Path, suffix: str) -> None:
    record = pack if suffix.endswith(".gz") else bytes
    packed = [record(format_page(make_page(n))) for n in range(5)]
    starts = [0, *accumulate(map(len, packed))]
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"".join(packed))
    stage = StageRun("read-warc")
    for number, (start, stop) in enumerate(pairwise(starts)):
        row = {"key": "a", "path": str(path), "start": start, "stop": stop}
        (table,) = stage.tables([row])
        assert [f"https://a.example/{number}"] == table["url"].to_pylist()
        assert [f"a#{start}"] == table["key"].to_pylist()
        assert [] == stage.tables([row | {"start": start + 1}])
    assert {} == stage.counters


RECORDS = [bytes(part) for part in format_archive(PAGES[:8])]


@given(length=st.integers(200, 6000), is_packed=st.booleans())
def test_law_ranges_of_any_length_give_the_rows_of_the_whole_file(
    tmp_path_factory: pytest.TempPathFactory, length: int, is_packed: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / ("law.warc.gz" if is_packed else "law.warc")
    path.write_bytes(b"".join(map(pack, RECORDS) if is_packed else RECORDS))
    whole, _ = read(str(path))
    ranges, stage = read(str(path), length=length)
    assert whole == ranges
    assert len(whole) == 8
    assert not [name for name in stage.counters if "broken" in name]


@given(at=st.integers(0, 1 << 20), flip=st.integers(1, 255), length=st.integers(500, 9000))
def test_law_a_changed_byte_costs_at_most_its_record(
    tmp_path_factory: pytest.TempPathFactory, at: int, flip: int, length: int
) -> None:
    packed = [pack(record) for record in RECORDS]
    content = bytearray(b"".join(packed))
    position = at % len(content)
    content[position] ^= flip
    path = tmp_path_factory.getbasetemp() / "flip.warc.gz"
    path.write_bytes(content)
    hit = sum(end <= position for end in accumulate(map(len, packed)))
    spared = [page.url for number, page in enumerate(PAGES[:8]) if 2 * number + 2 != hit]
    whole, stage = read(str(path))
    # A byte of the gzip header that is not evaluated (a time) changes nothing.
    assert set(spared) <= set(list_urls(whole)) <= {page.url for page in PAGES[:8]}
    assert sum(n for name, n in stage.counters.items() if "broken" in name) <= 1
    assert whole == read(str(path), length=length)[0]


def test_gzip_within_a_page_is_not_mistaken_for_a_member(tmp_path: Path) -> None:
    page = format_page(make_page(1, b"<html>" + b"x" * 400 + pack(b"hello") + b"y" * 400))
    path = tmp_path / "a.warc.gz"
    path.write_bytes(gzip.compress(page, compresslevel=0) + pack(format_page(make_page(2))))
    rows, stage = read(str(path), length=300)
    assert ["https://a.example/1", "https://a.example/2"] == list_urls(rows)
    assert {} == stage.counters


FIRST, LAST = format_page(make_page(1)), format_page(make_page(3))
LONG = format_page(make_page(2, b"<html>" + bytes(range(256)) * 40))
WRONG_LENGTH = LONG.replace(b"Content-Length: 10", b"Content-Length: 11", 1)
ZIPPED = HEAD + "\r\nContent-Encoding: gzip\r\n\r\n"


@pytest.mark.parametrize(
    ("suffix", "middle", "problem"),
    [
        (".warc.gz", pack(LONG)[:-40], "damaged compression"),
        (".warc.gz", b"not gzip at all", "damaged compression"),
        (".warc.gz", pack(b"hello"), "no WARC header"),
        (".warc.gz", pack(LONG[:-400]), "truncated"),
        (".warc.gz", pack(WRONG_LENGTH), "truncated"),
        (".warc.gz", pack(format_page(make_page(2, b"x" * 70_000))), "too large"),
        (".warc", b"hello\r\n\r\n", "no WARC header"),
        (".warc", LONG[:-20] + b"\r\n\r\n", "wrong length"),
        (".warc", LONG[:-800] + b"\r\n\r\n", "truncated"),
        (".warc", WRONG_LENGTH, "truncated"),
        (".warc", format_page(make_page(2, b"x" * 70_000)), "too large"),
        (
            ".warc.gz",
            pack(format_record("https://a.example/2", ZIPPED.encode() + b"\0no gzip")),
            "content that can't be decoded",
        ),
    ],
)
def test_a_broken_record_is_counted_and_the_next_is_read(
    tmp_path: Path, suffix: str, middle: bytes, problem: str
) -> None:
    ends = (pack(FIRST), pack(LAST)) if suffix.endswith(".gz") else (FIRST, LAST)
    path = tmp_path / f"a{suffix}"
    path.write_bytes(ends[0] + middle + ends[1])
    rows, stage = read(str(path), maxRecordBytes=30_000)
    assert ["https://a.example/1", "https://a.example/3"] == list_urls(rows)
    assert {f"dropped: broken record ({problem})": 1} == stage.counters


@pytest.mark.parametrize("suffix", [".warc", ".warc.gz"])
def test_a_truncated_file_keeps_its_complete_records(tmp_path: Path, suffix: str) -> None:
    wrap = pack if suffix.endswith(".gz") else bytes
    path = tmp_path / f"a{suffix}"
    path.write_bytes(wrap(FIRST) + wrap(LONG)[:-60])
    rows, stage = read(str(path))
    assert ["https://a.example/1"] == list_urls(rows)
    assert {"dropped: broken record (truncated)": 1} == stage.counters


def test_encoded_content_is_decoded(tmp_path: Path) -> None:
    body = gzip.compress(b"<html>zipped</html>")
    block = (ZIPPED.removesuffix("\r\n") + "Transfer-Encoding: chunked\r\n\r\n").encode()
    block += b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    (tmp_path / "a.warc").write_bytes(format_record("https://a.example/", block))
    rows, _ = read(f"{tmp_path}/a.warc")
    assert [b"<html>zipped</html>"] == [row["content"] for row in rows]


def test_pages_without_a_content_type_are_kept_if_they_look_like_html(tmp_path: Path) -> None:
    pages = [make_page(1, b"\n<!DOCTYPE html><p>x"), make_page(2, b"plain text")]
    bare = [page._replace(head="HTTP/1.1 200 OK") for page in pages]
    (tmp_path / "a.warc").write_bytes(b"".join(map(format_page, bare)))
    rows, stage = read(f"{tmp_path}/a.warc")
    assert ["https://a.example/1"] == list_urls(rows)
    assert {"dropped: other content type": 1} == stage.counters


def test_plain_text_of_wet_files_is_text(tmp_path: Path) -> None:
    records = [
        format_record("https://a.example/1", "Grüße".encode(), "conversion", "text/plain"),
        format_page(make_page(2)),
    ]
    (tmp_path / "a.warc.wet.gz").write_bytes(b"".join(map(pack, records)))
    rows, stage = read(f"{tmp_path}/*.wet.gz", records="conversion")
    assert [("https://a.example/1", "Grüße")] == [(row["url"], row["text"]) for row in rows]
    assert {"passed over: response record": 1} == stage.counters
    assert "content" not in rows[0]


def test_a_missing_file_fails_its_source(tmp_path: Path) -> None:
    row = {"key": "a.warc.gz", "path": f"{tmp_path}/gone.warc.gz", "start": 0, "stop": None}
    table = pa.table({name: pa.array([value]) for name, value in row.items()})
    with pytest.raises(UnreadableFileError, match=r"^a.warc.gz: No such file"):
        StageRun("read-warc").tables(table.to_pylist())


def test_the_generator_reproduces_its_pages_and_covers_each_kind() -> None:
    again = write_pages(24)
    assert PAGES == again
    assert PAGES != write_pages(24, seed=1)
    assert {"prose", "contact", "unclosed", "spam", "missing", "image", "menu", "bare"} == {
        page.kind for page in write_pages(72)
    }
