"""Parses WARC records: their metadata, and their decoded content.

The module must not depend on files or columns.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from strandline_packs.web.warc.http_bodies import parse_content_type, parse_fields, parse_response

_SNIFFED = 1024
_HTML = (b"<!doctype html", b"<html", b"<head", b"<body")
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_HTTP = b"HTTP/"


class RecordType(StrEnum):
    """The type of records to read."""

    RESPONSE = "response"
    CONVERSION = "conversion"


# A resource is a page that was fetched without HTTP, or stored without its HTTP header.
_TYPES = {RecordType.RESPONSE: {"response", "resource"}, RecordType.CONVERSION: {"conversion"}}


class WebRecord(NamedTuple):
    """A record of a WARC file.

    Attributes:
        id: the record ID as written; empty if there is none.
        url: address of the fetched page.
        date: time of the fetch, ISO 8601 as written.
        status: HTTP status; 0 if missing, None if no HTTP was stored.
        content_type: lower case, without parameters; empty if there is none.
        charset: charset of the HTTP header; empty if there is none.
        content: decoded bytes.
        problem: reason for unreadable content; empty on success.
        other: type of an unwanted record.
    """

    id: str = ""
    url: str = ""
    date: str = ""
    status: int | None = 0
    content_type: str = ""
    charset: str = ""
    content: bytes = b""
    problem: str = ""
    other: str = ""


def parse_record(data: bytes, wanted: RecordType, most: int) -> WebRecord:
    """Parse a record.

    Args:
        data: header and block.
        wanted: type of records to parse. For records of other types, only the type is read.
        most: limit of the content, in bytes.
    """
    end = _HEAD_END.search(data)
    if end is None:
        return WebRecord(problem="no WARC header")
    fields = parse_fields(data[: end.start()])
    kind = fields.get("warc-type", "").lower()
    if kind not in _TYPES[wanted]:
        return WebRecord(other=kind or "unknown")
    facts = WebRecord(
        id=fields.get("warc-record-id", ""),
        # Writers of WARC 1.0 may put the URL in angle brackets.
        url=fields.get("warc-target-uri", "").strip("<>"),
        date=fields.get("warc-date", ""),
    )
    block = data[end.end() :]
    # The header field that declares HTTP content is optional, so check the block itself.
    if kind == "response" and block.startswith(_HTTP):
        return _read_response(facts, block, most)
    content_type, charset = parse_content_type(fields.get("content-type", ""))
    return facts._replace(
        status=None if kind == "resource" else 0,
        content_type=content_type or _sniff(block),
        charset=charset,
        content=block,
    )


def _read_response(facts: WebRecord, block: bytes, most: int) -> WebRecord:
    response = parse_response(block, most)
    return facts._replace(
        status=response.status,
        content_type=response.content_type or _sniff(response.content),
        charset=response.charset,
        content=response.content,
        problem=response.problem,
    )


def _sniff(content: bytes) -> str:
    begin = content[:_SNIFFED].lower()
    return "text/html" if any(mark in begin for mark in _HTML) else ""
