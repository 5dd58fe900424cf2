"""Bodies of responses are decoded by their content, whatever their headers claim."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_crawl import format_record

from stage_runs import StageRun

PAGE = "<html><body>Grüße aus dem Hafen. ".encode() + b"The lamp is lit. " * 40 + b"</body></html>"
MOST = 20_000


def deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


def chunk(body: bytes, length: int = 100, end: bytes = b"0\r\n\r\n") -> bytes:
    parts = [body[start : start + length] for start in range(0, len(body), length)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + end


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "twice": lambda body: gzip.compress(gzip.compress(body)),
    "members": lambda body: gzip.compress(body[:50]) + gzip.compress(body[50:]),
    "zlib": zlib.compress,
    "deflate": deflate,
    "br": lambda body: pa.compress(body, codec="brotli", asbytes=True),
    "zstd": lambda body: pa.compress(body, codec="zstd", asbytes=True),
}
HEADS = {
    "plain": ("gzip", "x-gzip", "deflate", "br", "zstd", "compress", "UTF-8", "none", "gzip, br"),
    "gzip": ("gzip", "x-gzip", "GZIP", "deflate", "br", "utf-8, gzip", ""),
    "twice": ("gzip", "gzip, gzip"),
    "members": ("gzip",),
    "zlib": ("deflate",),
    "deflate": ("deflate", "x-deflate"),
    "br": ("br",),
    "zstd": ("zstd", "br"),
}
PAIRS = [(packing, told) for packing, heads in HEADS.items() for told in heads]


def read_blocks(
    folder: Path, *blocks: bytes, **params: object
) -> tuple[list[bytes], dict[str, int]]:
    """Return the contents of the rows from responses, and the counters."""
    path = folder / "a.warc"
    path.write_bytes(b"".join(format_record("https://a.example/", block) for block in blocks))
    stage = StageRun("read-warc", maxRecordBytes=MOST, **params)
    (source,) = StageRun("warc-files", paths=[str(path)]).sources()
    rows = [row for task in stage.tables(source.data.to_pylist()) for row in task.to_pylist()]
    return [row["content"] for row in rows], stage.counters


def format_block(body: bytes, *fields: str, kind: str = "text/html") -> bytes:
    head = ["HTTP/1.1 200 OK", f"Content-Type: {kind}", *fields]
    return "\r\n".join([*head, "", ""]).encode() + body


@pytest.mark.parametrize(("packing", "told"), PAIRS)
@pytest.mark.parametrize("transfer", ["", "chunked", "dechunked"])
def test_a_body_is_decoded_by_its_content(
    tmp_path: Path, packing: str, told: str, transfer: str
) -> None:
    body = PACKERS[packing](PAGE)
    fields = [f"Content-Encoding: {told}"] if told else []
    fields += ["Transfer-Encoding: chunked"] if transfer else []
    block = format_block(chunk(body) if transfer == "chunked" else body, *fields)
    assert ([PAGE], {}) == read_blocks(tmp_path, block)


@pytest.mark.parametrize("begin", [b"", b"\n", b"bad\r\nface ", b"\xef\xbb\xbf", b"2008\r\n"])
def test_plain_text_stays_whole_whatever_its_first_line_looks_like(
    tmp_path: Path, begin: bytes
) -> None:
    body = begin + PAGE
    fields = ("Content-Encoding: gzip",)
    assert ([body], {}) == read_blocks(tmp_path, format_block(body, *fields))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "iso2022_jp", "shift_jis"])
def test_plain_text_of_any_encoding_is_not_damage(tmp_path: Path, encoding: str) -> None:
    body = "<html>hello 123</html>".encode(encoding)
    assert ([body], {}) == read_blocks(tmp_path, format_block(body, "Content-Encoding: gzip"))


@pytest.mark.parametrize(
    ("body", "field", "reason"),
    [
        (gzip.compress(PAGE)[:-20], "Content-Encoding: gzip", "content that was cut"),
        (gzip.compress(PAGE)[:-1], "Content-Encoding: x-gzip", "content that was cut"),
        (gzip.compress(PAGE)[:-20], "X: y", "content that was cut"),
        (PACKERS["zstd"](PAGE)[:-5], "Content-Encoding: zstd", "content that was cut"),
        (PACKERS["br"](PAGE)[:-5], "Content-Encoding: br", "content that was cut"),
        (deflate(PAGE)[:-5], "Content-Encoding: deflate", "content that was cut"),
        (zlib.compress(PAGE)[:-5], "Content-Encoding: deflate", "content that was cut"),
        (chunk(PAGE)[:-60], "Transfer-Encoding: chunked", "content that was cut"),
        (chunk(PAGE)[:50], "Transfer-Encoding: chunked", "content that was cut"),
        (
            chunk(PAGE[:200], end=b"") + b"no chunk",
            "Transfer-Encoding: chunked",
            "content that can't be decoded",
        ),
        (
            gzip.compress(PAGE).replace(b"\x1f\x8b", b"\x1f\x00"),
            "Content-Encoding: gzip",
            "content that can't be decoded",
        ),
        (gzip.compress(b" " * MOST + PAGE), "Content-Encoding: gzip", "too large"),
        (PACKERS["br"](b" " * MOST + PAGE), "Content-Encoding: br", "too large"),
        (PACKERS["zstd"](b" " * MOST + PAGE), "Content-Encoding: zstd", "too large"),
    ],
)
def test_incomplete_bodies_are_counted_by_the_true_reason(
    tmp_path: Path, body: bytes, field: str, reason: str
) -> None:
    blocks = (format_block(PAGE), format_block(body, field), format_block(PAGE))
    contents, counters = read_blocks(tmp_path, *blocks)
    assert [PAGE, PAGE] == contents
    assert {f"dropped: broken record ({reason})": 1} == counters


def test_chunks_without_the_last_are_accepted_if_declared(tmp_path: Path) -> None:
    block = format_block(chunk(PAGE, end=b""), "Transfer-Encoding: chunked")
    assert ([PAGE], {}) == read_blocks(tmp_path, block)


@pytest.mark.parametrize("kind", ["image/png", "application/gzip"])
def test_downloaded_files_stay_unchanged(tmp_path: Path, kind: str) -> None:
    body = gzip.compress(b"\x89PNG\r\n\x1a\n\0\0")
    picture = b"\x89PNG\r\n\x1a\n\0\0"
    blocks = (
        format_block(body, kind=kind),
        format_block(picture, "Content-Encoding: gzip", kind=kind),
    )
    assert ([body, picture], {}) == read_blocks(tmp_path, *blocks, contentTypes=[])


@pytest.mark.parametrize(
    "before",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\nServer: x\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n",
        b"HTTP/1.0 200 Connection established\r\n\r\n",
    ],
)
def test_informational_responses_are_skipped(tmp_path: Path, before: bytes) -> None:
    block = before + format_block(gzip.compress(PAGE), "Content-Encoding: gzip")
    assert ([PAGE], {}) == read_blocks(tmp_path, block)


def test_heads_are_read_as_servers_write_them(tmp_path: Path) -> None:
    body = gzip.compress(PAGE)
    heads = (
        b"HTTP/1.1 200\r\ncontent-type:TEXT/HTML\r\nCONTENT-ENCODING:gzip\r\n\r\n",
        b"HTTP/1.0 200 OK\nContent-Type: text/html\nContent-Encoding: gzip\n\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html;\r\n charset=x\r\nbroken line\r\n: y\r\n\r\n",
        b"HTTP/2 200\r\nContent-Type: text/html\r\nContent-Type: image/png\r\n\r\n",
    )
    assert ([PAGE] * 4, {}) == read_blocks(tmp_path, *(head + body for head in heads))


@given(
    body=st.sampled_from([PAGE, b"", b"\0\1\2"]) | st.binary(max_size=80),
    packing=st.sampled_from(list(PACKERS)),
    told=st.sampled_from([*HEADS["plain"], "", "deflate"]),
    cut=st.integers(0, 60),
    is_chunked=st.booleans(),
    sent=st.booleans(),
)
def test_law_every_response_is_kept_or_counted(
    tmp_path_factory: pytest.TempPathFactory,
    body: bytes,
    packing: str,
    told: str,
    cut: int,
    is_chunked: bool,
    sent: bool,
) -> None:
    packed = PACKERS[packing](body)
    packed = chunk(packed) if is_chunked else packed
    packed = packed[: max(len(packed) - cut, 0)]
    fields = [f"Content-Encoding: {told}", *(["Transfer-Encoding: chunked"] if sent else [])]
    blocks = (format_block(PAGE), format_block(packed, *fields), format_block(PAGE))
    contents, counters = read_blocks(tmp_path_factory.getbasetemp(), *blocks)
    assert [PAGE, PAGE] == [contents[0], contents[-1]]
    assert len(blocks) == len(contents) + sum(counters.values())
