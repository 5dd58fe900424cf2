"""WARC records read from chunks of a file: what each is of, and its content, decoded.

It needs fastwarc, which is loaded where records are read. It knows no files and no columns.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fastwarc.warc import WarcRecord

_SNIFFED = 1024
_HTML = (b"<!doctype html", b"<html", b"<head", b"<body")
_HEAD_END = b"\r\n\r\n"


class RecordType(StrEnum):
    """Which records are read."""

    RESPONSE = "response"
    CONVERSION = "conversion"


class WebRecord(NamedTuple):
    """A record of a WARC file.

    Attributes:
        id: the record's own, as it stands; empty where it has none.
        url: of what was fetched.
        date: when, ISO 8601 as it stands.
        status: of the HTTP response; 0 where there is none.
        content_type: lower case, without parameters; empty where it is not told.
        charset: as the HTTP header tells; empty where it does not.
        content: bytes, without what they were sent in.
        problem: why it can't be read; empty where it can.
    """

    id: str = ""
    url: str = ""
    date: str = ""
    status: int = 0
    content_type: str = ""
    charset: str = ""
    content: bytes = b""
    problem: str = ""


def parse_chunk(data: bytes, wanted: RecordType) -> Iterator[WebRecord]:
    """Yield the records of a type, and an empty one with its problem where one is broken."""
    from fastwarc.warc import ArchiveIterator, WarcRecordType  # noqa: PLC0415 - an extra's

    mask = getattr(WarcRecordType, wanted.value)
    try:
        for record in ArchiveIterator(
            io.BytesIO(data), record_types=mask, parse_http=False, stream_detect=False
        ):
            found = _read(record, data)
            yield found
            if found.problem:  # where the next one begins is not known
                return
    except OSError:
        yield WebRecord(problem="no WARC header")


def _read(record: WarcRecord, data: bytes) -> WebRecord:
    head = data.find(_HEAD_END, record.stream_pos)
    if head + len(_HEAD_END) + record.content_length > len(data):
        return WebRecord(problem="truncated")
    try:
        if record.is_http:
            record.parse_http(auto_decode="all")
        content = record.reader.read()
    except (OSError, ValueError):
        return WebRecord(problem="content that can't be decoded")
    kind = record.http_content_type if record.is_http else record.headers.get("Content-Type")
    return WebRecord(
        id=record.headers.get("WARC-Record-ID") or "",
        url=(record.headers.get("WARC-Target-URI") or "").strip("<>"),
        date=record.headers.get("WARC-Date") or "",
        status=(record.http_headers.status_code or 0) if record.is_http else 0,
        content_type=(kind or "").partition(";")[0].strip().lower() or _sniff(content),
        charset=(record.http_charset or "") if record.is_http else "",
        content=content,
    )


def _sniff(content: bytes) -> str:
    begin = content[:_SNIFFED].lower()
    return "text/html" if any(mark in begin for mark in _HTML) else ""
