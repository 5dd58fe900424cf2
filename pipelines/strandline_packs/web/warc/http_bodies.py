"""Decodes bodies of HTTP responses, by their bytes rather than by their headers.

Some crawlers store bodies as received; others unpack them but keep the old headers, as Common Crawl
did until August 2018. Browsers and archive readers look at the bytes, and so does this module. The
module must not depend on records or columns.
"""

from __future__ import annotations

import re
import zlib
from typing import NamedTuple

import pyarrow as pa

CUT = "content that was cut"
BROKEN = "content that can't be decoded"
TOO_LARGE = "too large"

_GZIP = b"\x1f\x8b\x08"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ROUNDS = 3  # maximum levels of nested gzip, which chained servers may send
_PEEKED = 1024  # bytes to examine
_PACKING = {"gzip", "x-gzip", "deflate", "x-deflate", "br", "zstd", "x-zstd", "compress"}
_TEXT = re.compile(r"text/|.*(html|xml|json|javascript)")
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
# Control characters that text does not contain. Text may contain tabs, line ends, and ISO-2022
# escapes.
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
# Matches `1a2b` and `1a2b;name=value`, with the line end.
_SIZE = re.compile(rb"([0-9a-fA-F]{1,12})[ \t]*(?:;[^\r\n]*)?(\r?\n)")
_LINE_END = re.compile(rb"\r?\n")
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/[0-9.]+[ \t]+([0-9]{3})([^\r\n]*)")
# A header value continues on lines that begin with a blank.
_FOLD = re.compile(r"\r?\n[ \t]+")
_OK = 200  # a lower status is interim: another response follows


class _DecodingError(Exception):
    """Raised if the encoding of a body is damaged. The message is the reason."""


class HttpResponse(NamedTuple):
    """HTTP response of a server.

    Attributes:
        status: status code, or 0 if missing.
        content_type: content type in lower case, without parameters; empty if missing.
        charset: charset in the header; empty if missing.
        content: the decompressed body.
        problem: reason why the body is missing; empty on success.
    """

    status: int = 0
    content_type: str = ""
    charset: str = ""
    content: bytes = b""
    problem: str = ""


def parse_response(block: bytes, most: int) -> HttpResponse:
    """Return the response of a block, after any interim responses.

    Args:
        block: headers and body as stored.
        most: limit of an unpacked body, in bytes.
    """
    status, head, body = _split_head(block)
    fields = parse_fields(head)
    content_type, charset = parse_content_type(fields.get("content-type", ""))
    try:
        content = _decode_body(body, fields, content_type, most)
    except _DecodingError as error:
        return HttpResponse(status, content_type, charset, problem=str(error))
    return HttpResponse(status, content_type, charset, content)


def parse_fields(head: bytes) -> dict[str, str]:
    """Return the header fields by lower-case name. Only repeated encodings are joined."""
    fields: dict[str, str] = {}
    # The first line is the status line.
    for line in _FOLD.sub(" ", head.decode("latin-1")).splitlines()[1:]:
        name, colon, value = line.partition(":")
        key = name.strip().lower()
        if not colon or not key:
            continue
        # A body may have several encodings, so join these fields. For other fields, the first
        # counts.
        if key in fields and key.endswith("-encoding"):
            fields[key] += f", {value.strip()}"
        else:
            fields.setdefault(key, value.strip())
    return fields


def parse_content_type(value: str) -> tuple[str, str]:
    """Return a type in lower case without parameters, and its charset; empty strings if missing."""
    kind, _, parameters = value.partition(";")
    charset = re.search(r"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", parameters, re.IGNORECASE)
    return kind.partition(",")[0].strip().lower(), charset[1] if charset else ""


def _split_head(block: bytes) -> tuple[int, bytes, bytes]:
    """Return the status, head and body of the last response of a block."""
    while True:
        end = _HEAD_END.search(block)
        head, body = (block[: end.start()], block[end.end() :]) if end else (block, b"")
        line = _STATUS.match(head)
        status = int(line[1]) if line else 0
        # Proxies answer CONNECT with `200 Connection established`.
        is_tunnel = status == _OK and line is not None and b"onnection " in line[2]
        # `100 Continue`, early hints, and the answer of a proxy to CONNECT precede the response.
        if not (0 < status < _OK or is_tunnel) or not body.startswith(b"HTTP/"):
            return status, head, body
        block = body


def _decode_body(body: bytes, fields: dict[str, str], content_type: str, most: int) -> bytes:
    sent = _list_codings(fields, "transfer-encoding")
    body = _join_chunks(body, is_declared="chunked" in sent)
    packing = [
        coding
        for coding in (*_list_codings(fields, "content-encoding"), *sent)
        if coding in _PACKING  # `UTF-8`, `none`, and `identity` do not compress
    ]
    is_text = not content_type or _TEXT.match(content_type) is not None
    # The last coding was applied last, so remove that coding first.
    for coding in reversed(packing):
        body = _unpack_declared(body, coding, most, is_text=is_text)
    # Some servers send compressed pages without declaring it, or compress them twice.
    for _ in range(_ROUNDS if is_text else 0):
        if not body.startswith(_GZIP):
            break
        # 16 selects the gzip format.
        body = _inflate(body, zlib.MAX_WBITS | 16, most)
    if len(body) > most:
        raise _DecodingError(TOO_LARGE)
    return body


def _list_codings(fields: dict[str, str], name: str) -> list[str]:
    return [coding.strip().lower() for coding in fields.get(name, "").split(",")]


def _unpack_declared(body: bytes, coding: str, most: int, *, is_text: bool) -> bytes:
    """Decompress a body by its signature, or else by the declared coding.

    Raises:
        _DecodingError: the compressed body is truncated or damaged, or the body is neither
            compressed nor plain.
    """
    if body.startswith(_GZIP):
        return _inflate(body, zlib.MAX_WBITS | 16, most)
    if body.startswith(_ZSTD):
        return _decompress(body, "zstd", most)
    try:
        if coding in {"deflate", "x-deflate"}:
            return _inflate_raw_or_not(body, most)
        if coding == "br" and body:
            return _decompress(body, "brotli", most)
    except _DecodingError as error:
        # If the body is not compressed as declared, the crawler has unpacked it.
        if str(error) == TOO_LARGE or (is_text and not _is_plain(body)):
            raise
        return body
    if is_text and not _is_plain(body):
        raise _DecodingError(BROKEN)
    return body


def _inflate_raw_or_not(body: bytes, most: int) -> bytes:
    """Decompress zlib data with the standard header, or without a header, as some servers send."""
    try:
        return _inflate(body, zlib.MAX_WBITS, most)
    except _DecodingError as error:
        if str(error) != BROKEN:
            raise
        # Negative bits select data without a zlib header.
        return _inflate(body, -zlib.MAX_WBITS, most)


def _inflate(body: bytes, window: int, most: int) -> bytes:
    """Decompress zlib data, including later gzip members.

    Raises:
        _DecodingError: the data is damaged, truncated, or larger than `most` bytes.
    """
    unpacked, rest = b"", body
    while rest and (not unpacked or rest.startswith(_GZIP)):
        inflater = zlib.decompressobj(window)
        try:
            # A byte beyond the limit shows that the body is too large.
            unpacked += inflater.decompress(rest, most + 1 - len(unpacked))
        except zlib.error as error:
            raise _DecodingError(BROKEN) from error
        if len(unpacked) > most:
            raise _DecodingError(TOO_LARGE)
        if not inflater.eof:
            raise _DecodingError(CUT)
        # Nothing was consumed: stop instead of looping forever.
        if len(inflater.unused_data) == len(rest):
            break
        rest = inflater.unused_data
    return unpacked


def _decompress(body: bytes, codec: str, most: int) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
            unpacked: bytes = stream.read(most + 1)
    except (OSError, pa.ArrowException) as error:
        # Matches `Truncated` and `truncated` in Arrow's messages.
        raise _DecodingError(CUT if "runcated" in str(error) else BROKEN) from error
    if len(unpacked) > most:
        raise _DecodingError(TOO_LARGE)
    return unpacked


def _join_chunks(body: bytes, *, is_declared: bool) -> bytes:
    """Join the chunks of a body. A body that is not chunked is returned unchanged.

    Raises:
        _DecodingError: the chunks are truncated or damaged, and the header declares them.
    """
    parts: list[bytes] = []
    position = 0
    while size := _SIZE.match(body, position):
        length = int(size[1], 16)
        if length == 0:
            return b"".join(parts)
        end = size.end() + length
        if end > len(body):
            # Plain text may also start with a line of hex digits. The body counts as truncated only
            # if complete chunks precede, or the line ends as in the standard.
            if is_declared and (parts or size[2] == b"\r\n"):
                raise _DecodingError(CUT)
            return body
        after = _LINE_END.match(body, end)
        if after is None and end < len(body):
            break
        parts.append(body[size.end() : end])
        position = after.end() if after else end
    # If the final empty chunk is missing, only the header shows that the body is chunked.
    if parts and is_declared:
        if position >= len(body):
            return b"".join(parts)
        raise _DecodingError(BROKEN)
    return body


def _is_plain(body: bytes) -> bool:
    """Return whether bytes may be text: no control characters except those of the encoding."""
    begin = body[:_PEEKED]
    if begin.startswith(_MARKS) or not _CONTROL.search(begin):
        return True
    # UTF-16 without a byte order mark has zeros in all even or all odd bytes.
    return any(
        not any(begin[side::2]) and not _CONTROL.search(begin[1 - side :: 2]) for side in (0, 1)
    )
