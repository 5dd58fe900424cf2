"""Crawls as written by Common Crawl, wget, and browser extensions."""

from __future__ import annotations

import gzip
import zlib

from make_crawl import format_record, pack

from material import Case, Json, Sight, complete, fails, put

TEXT = "<html><body><p>The keeper lit the lamp before the sun went down. " * 9
BODY = TEXT.encode()
SOURCE: Json = {"use": "warc-files", "with": {"paths": ["FOLDER/*"]}}
READ: list[Json] = [{"use": "read-warc"}]


def _respond(body: bytes, *fields: str, kind: str = "text/html") -> bytes:
    head = "\r\n".join(["HTTP/1.1 200 OK", f"Content-Type: {kind}", *fields, "", ""])
    return head.encode() + body


def _record(block: bytes, number: int = 0) -> bytes:
    return format_record(f"https://example.com/{number}", block)


def _case(words: str, content: bytes, expected: Sight, name: str = "a.warc") -> Case:
    return Case("crawls", words, put(name, content), SOURCE, READ, expected)


def _chunk(body: bytes) -> bytes:
    parts = [body[at : at + 100] for at in range(0, len(body), 100)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def _deflate(body: bytes) -> bytes:
    raw = zlib.compressobj(wbits=-15)
    return raw.compress(body) + raw.flush()


BODIES = {
    "gzip, as its head says": (_respond(gzip.compress(BODY), "Content-Encoding: gzip")),
    "its head says gzip, and it is plain": _respond(BODY, "Content-Encoding: gzip"),
    "its head says chunked, and it is not": _respond(BODY, "Transfer-Encoding: chunked"),
    "chunked": _respond(_chunk(BODY), "Transfer-Encoding: chunked"),
    "x-gzip": _respond(gzip.compress(BODY), "Content-Encoding: x-gzip"),
    "raw deflate": _respond(_deflate(BODY), "Content-Encoding: deflate"),
    "an encoding called UTF-8": _respond(BODY, "Content-Encoding: UTF-8"),
}
CASES = [
    *(_case(words, _record(block), complete(1)) for words, block in BODIES.items()),
    _case(
        "records of one gzip member",
        gzip.compress(b"".join(_record(_respond(BODY), number) for number in range(5))),
        complete(5),
        "a.warc.gz",
    ),
    _case(
        "a member a record",
        b"".join(pack(_record(_respond(BODY), number)) for number in range(5)),
        complete(5),
        "a.warc.gz",
    ),
    _case("no WARC at all", BODY, fails("HTML")),
    _case("none at all", b"", complete(0)),
]
