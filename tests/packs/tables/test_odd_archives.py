"""WARC files as less common writers leave them: every record is kept or counted."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_crawl import format_record, pack

from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError
from web_archive import Page, format_page

HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/html"
PAGES = [
    Page(f"https://a.example/{n}", "prose", "en", HEAD, b"<html>page %d " % n + b"x" * n * 90)
    for n in range(9)
]
RECORDS = [format_page(page) for page in PAGES]


def read(path: Path, length: int | None = None, **params: Any) -> tuple[list[Any], StageRun]:
    """Return the rows of a file, read in ranges or whole, and the stage."""
    stage = StageRun("read-warc", **params)
    rows = []
    for source in StageRun("warc-files", paths=[str(path)], rangeBytes=length).sources():
        for task in stage.tables(source.data.to_pylist()):
            rows.extend(task.to_pylist())
    return rows, stage


def cut_anywhere(records: list[bytes]) -> bytes:
    joined = b"".join(records)
    return b"".join(pack(joined[start : start + 333]) for start in range(0, len(joined), 333))


def use_line_feeds(records: list[bytes]) -> bytes:
    return b"".join(
        record.partition(b"\r\n\r\n")[0].replace(b"\r\n", b"\n")
        + b"\n\n"
        + record.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n\r\n")
        + b"\n\n"
        for record in records
    )


WRITERS: dict[str, tuple[str, Callable[[list[bytes]], bytes]]] = {
    "one member": ("a.warc.gz", lambda records: pack(b"".join(records))),
    "members cut anywhere": ("a.warc.gz", cut_anywhere),
    "with empty members": ("a.warc.gz", lambda records: pack(b"").join(map(pack, records))),
    "two files in one": (
        "a.warc.gz",
        lambda records: pack(b"".join(records[:4])) + pack(b"".join(records[4:])),
    ),
    "unpacked, its name left": ("a.warc.gz", b"".join),
    "packed, without a suffix": ("a.warc", lambda records: b"".join(map(pack, records))),
    "line feeds": ("a.warc", use_line_feeds),
    "line feeds, packed": ("a.warc.gz", lambda records: pack(use_line_feeds(records))),
    "version 0.18": (
        "a.warc",
        lambda records: (
            b"".join(records).replace(b"WARC/1.0", b"WARC/0.18").replace(b"WARC/1.1", b"WARC/0.18")
        ),
    ),
    "no trailer at the end": ("a.warc", lambda records: b"".join(records).rstrip(b"\r\n")),
    "Application/HTTP": (
        "a.warc",
        lambda records: b"".join(records).replace(b"application/http", b"Application/HTTP"),
    ),
    "no content type": (
        "a.warc",
        lambda records: b"".join(records).replace(
            b"Content-Type: application/http; msgtype=response\r\n", b""
        ),
    ),
    "names of fields in lower case": (
        "a.warc",
        lambda records: (
            b"".join(records)
            .replace(b"WARC-Type", b"warc-type")
            .replace(b"WARC-Target-URI", b"warc-target-uri")
        ),
    ),
}


@pytest.mark.parametrize("length", [None, 400, 3000])
@pytest.mark.parametrize("writer", WRITERS)
def test_files_of_other_writers_are_read_whole_and_in_ranges(
    tmp_path: Path, writer: str, length: int | None
) -> None:
    name, write = WRITERS[writer]
    (tmp_path / name).write_bytes(write(RECORDS))
    rows, stage = read(tmp_path / name, length)
    assert [(page.url, page.body) for page in PAGES] == [(r["url"], r["content"]) for r in rows]
    assert {} == stage.counters
    assert len(rows) == len({row["key"] for row in rows})


def test_resources_are_pages_without_a_status(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    told = "text/html; charset=iso-8859-2"
    path.write_bytes(
        format_record("file:///a.html", b"<html>1", "resource", told)
        + format_record("file:///b.png", b"\x89PNG", "resource", "image/png")
        + format_record("dns:a.example", b"20260101", "response", "text/dns")
        + format_record("https://a.example/", b"", "revisit", "application/http")
    )
    rows, stage = read(path)
    assert [("file:///a.html", "iso-8859-2", b"<html>1")] == [
        (row["url"], row["charset"], row["content"]) for row in rows
    ]
    assert {
        "dropped: other content type": 1,
        "dropped: other status": 1,
        "passed over: revisit record": 1,
    } == stage.counters


def test_a_member_above_the_record_limit_is_read_record_by_record(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    path.write_bytes(gzip.compress(b"".join(RECORDS * 50), compresslevel=0))
    rows, stage = read(path, maxRecordBytes=2000)
    assert 450 == len(rows)
    assert {} == stage.counters


@pytest.mark.parametrize("end", [-1, -200])
def test_a_truncated_member_keeps_its_complete_records(tmp_path: Path, end: int) -> None:
    path = tmp_path / "a.warc.gz"
    path.write_bytes(gzip.compress(b"".join(RECORDS), compresslevel=0)[:end])
    rows, stage = read(path)
    assert [page.url for page in PAGES[:-1]] == [row["url"] for row in rows]
    assert {"dropped: broken record (truncated)": 1} == stage.counters


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.warc", b"<html>Please log in</html>", "no WARC header"),
        ("a.warc.gz", b"<html>Please log in</html>", "damaged compression"),
        ("a.warc.gz", pack(b"<html>Please log in</html>"), "no WARC header"),
        ("a.warc.gz", pack(RECORDS[1])[:40], "truncated"),
        ("a.warc", b"\xfd7zXZ\0\0" + bytes(99), "no WARC header"),
    ],
)
def test_a_file_without_any_record_fails_its_source(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableFileError, match=rf"{name}: it has no WARC record \({problem}\)"):
        read(tmp_path / name)


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_an_empty_file_has_no_rows(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    assert [] == read(tmp_path / name)[0]


OTHERS = ("request", "metadata", "warcinfo", "revisit", "continuation")


@given(
    kinds=st.lists(st.sampled_from([*OTHERS, "response", "resource", "broken"]), max_size=9),
    is_packed=st.booleans(),
    is_joined=st.booleans(),
)
def test_law_every_record_is_kept_or_counted(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str], is_packed: bool, is_joined: bool
) -> None:
    block = f"{HEAD}\r\nContent-Encoding: gzip\r\n\r\n".encode()
    bodies = {"response": block + b"<html>", "broken": block + gzip.compress(b"<html>")[:-3]}
    records = [
        format_record(
            "https://a.example/",
            bodies.get(kind, b"<html>"),
            "response" if kind == "broken" else kind,
            "text/html" if kind == "resource" else "application/http",
        )
        for kind in kinds
    ]
    records = [b"".join(records)] if is_joined else records
    path = tmp_path_factory.getbasetemp() / ("law.warc.gz" if is_packed else "law.warc")
    path.write_bytes(b"".join(map(pack, records) if is_packed and kinds else records))
    rows, stage = read(path)
    assert len(rows) == sum(kind in {"response", "resource"} for kind in kinds)
    assert len(kinds) == len(rows) + sum(stage.counters.values())
