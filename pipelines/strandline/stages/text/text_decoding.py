"""Bytes of unknown encoding as text: byte order mark, UTF-8, then what the caller falls back to."""

from __future__ import annotations

import codecs

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: its mark starts with that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class UndecodableError(ValueError):
    """Bytes that are no text in any encoding that was tried."""


def decode_text(content: bytes, fallback: str | None) -> str:
    """The text of a file.

    Args:
        content: all of its bytes.
        fallback: encoding for what is not UTF-8 and has no byte order mark; None: refuse it.

    Raises:
        UndecodableError: it is binary, or in none of the encodings.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return _decode(content, encoding)
    if b"\0" in content:
        msg = "binary"
        raise UndecodableError(msg)
    try:
        return content.decode()
    except UnicodeDecodeError:
        if fallback is None:
            msg = "not utf-8"
            raise UndecodableError(msg) from None
    return _decode(content, fallback)


def _decode(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        msg = f"not {encoding}"
        raise UndecodableError(msg) from error
