"""Finds the character encoding of a page, by the WHATWG rules and the bytes of the page.

A browser must display something, but a corpus needs the intended characters. So declared encodings
count in the order of browsers, and only if the bytes are valid in them. This module takes bytes,
returns text, and does no I/O.
"""

from __future__ import annotations

import re

_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_TAG = re.compile(
    rb"<(?:(?P<comment>!--)|(?P<raw>script|style|title|textarea|xmp)\b|(?P<meta>meta)[\s/])",
    re.IGNORECASE,
)
_MOST_META = 2048  # maximum length of a tag, in bytes
# Matches `name`, `name=value`, and `name="value"`.
_ATTRIBUTE = re.compile(rb"([^\s=>\"'/]+)\s*(?:=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>][^\s>]*)))?")
# Matches the end of `text/html; charset=utf-8`.
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?\s*([^\s\"';,]+)", re.IGNORECASE)
_XML = re.compile(rb"\s*<\?xml[^>]{0,200}?\bencoding\s*=\s*[\"']([A-Za-z0-9._:-]{2,40})[\"']")
_SAMPLE = 4096  # bytes to examine
_UTF16 = ("utf-16-le", "utf-16-be")
# Minimum share of zeros among the even or odd bytes of UTF-16. The ASCII markup alone exceeds this
# share.
_FEWEST_ZEROS = 0.05
_TIMES_MORE = 3  # minimum ratio between the zeros of even and odd bytes
_ASCII = {"ascii", "us-ascii"}
_DEFAULT = "cp1252"  # the default that many servers declare for all pages
_MULTIBYTE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_SURE = 4  # this many UTF-8 sequences do not occur by chance in a double-byte encoding
_REPLACED = "\ufffd"
# Python codecs that match the WHATWG encodings of these names.
_CODECS = {
    "shift_jis": "cp932",
    "gbk": "gb18030",
    "gb2312": "gb18030",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
    "iso8859-11": "cp874",
    "x-mac-cyrillic": "mac_cyrillic",
    # Browsers reject these two encodings, but their text is readable.
    "hz-gb-2312": "hz",
    "iso-2022-kr": "iso2022_kr",
}
# Range of the first byte for the common characters of an encoding.
_COMMON = {
    "gb18030": range(0xA1, 0xD8),
    "big5hkscs": range(0xA1, 0xC7),
    "cp932": range(0x81, 0x98),
    "cp949": range(0xA1, 0xC9),
    "euc_jp": range(0xA1, 0xD0),
}
_FEWEST_COMMON = 0.7
_MOST_ISOLATED = 0.5  # maximum share of characters that are isolated within ASCII words
_MOST_DRAWN = 2000  # characters to examine
_ENOUGH = 8  # minimum number of characters to refute a declared encoding
_WIDES = "[\u2e80-\uffdc\U00020000-\U0003ffff]"
_WIDE = re.compile(_WIDES)
_ISOLATED = re.compile(f"(?<=[A-Za-z]){_WIDES}(?!{_WIDES})")


def decode_page(content: bytes, charset: str) -> str:
    """Return the text of a page.

    The candidates are the byte order mark, the HTTP charset, the page's own declaration, and a
    guess. The first encoding in which the bytes are valid wins. If none fits, U+FFFD replaces
    invalid bytes.

    Args:
        content: all bytes of the page.
        charset: the charset in the HTTP header; empty if the header names none.
    """
    for mark, name in _MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(name, "replace")
    text = _decode_wide(content)
    if text is not None:
        return text
    declared = _list_declared(content, charset)
    text = _decode_strictly(content, "utf-8")
    if text is not None and _is_utf8(content, declared):
        return text
    if text is None and _is_mostly_utf8(content):
        return content.decode("utf-8", "replace")
    return _decode_legacy(content, declared)


def find_meta_charset(content: bytes) -> str:
    """Return the codec that the page declares, or an empty string if there is no known codec."""
    at = 0
    while tag := _TAG.search(content, at):
        if tag["comment"]:
            end = content.find(b"-->", tag.start() + 2)
        elif tag["raw"]:
            closing = re.compile(rb"</" + tag["raw"], re.IGNORECASE).search(content, tag.end())
            end = closing.start() if closing else -1
        else:
            end = content.find(b">", tag.end())
            name = _read_meta(content[tag.end() : min(end, tag.end() + _MOST_META)])
            if name:
                return name
        if end < 0:  # the element extends to the end of the page
            break
        at = end
    declared = _XML.match(content)
    return _find_own_codec(declared[1]) if declared else ""


def _read_meta(text: bytes) -> str:
    """Return the codec that a `meta` tag declares, by `charset` or by `http-equiv`."""
    attributes: dict[bytes, bytes] = {}
    for found in _ATTRIBUTE.finditer(text):
        attributes.setdefault(found[1].lower(), found[2] or found[3] or found[4] or b"")
    if b"charset" in attributes:
        return _find_own_codec(attributes[b"charset"])
    if attributes.get(b"http-equiv", b"").strip().lower() == b"content-type":
        parameter = _CHARSET.search(attributes.get(b"content", b""))
        return _find_own_codec(parameter[1]) if parameter else ""
    return ""


def _find_own_codec(label: bytes) -> str:
    name = label.decode("latin-1").strip().lower()
    # A page that was readable up to this tag cannot be UTF-16. A user-defined charset has no codec.
    codec = "cp1252" if name == "x-user-defined" else _find_codec(name)
    return "utf-8" if codec in _UTF16 else codec


def _find_codec(label: str) -> str:
    """Return the codec of a label by the rules of browsers, or '' for an unknown label."""
    from resiliparse.parse.encoding import map_encoding_to_html5  # noqa: PLC0415 - an extra's

    name = label.strip("\"' \t").lower()
    known = map_encoding_to_html5(name, fallback_utf8=False) or (name if name in _CODECS else "")
    return _CODECS.get(known, known)


def _list_declared(content: bytes, charset: str) -> list[str]:
    # A page with bytes above 127 that is declared as ASCII has no usable declaration.
    is_declared = bool(charset) and charset.strip().lower() not in _ASCII
    header = _find_codec(charset) if is_declared else ""
    own = find_meta_charset(content)
    names = [name for name in (header, own) if name and name not in _UTF16]
    # Prefer the page's own declaration if the header is the server default, or if the bytes confirm
    # it.
    if len(set(names)) > 1 and (header == _DEFAULT or _guess(content) == own):
        names.reverse()
    return names


def _guess(content: bytes) -> str:
    from resiliparse.parse.encoding import detect_encoding  # noqa: PLC0415 - an extra's

    return _find_codec(detect_encoding(content) or "")


def _decode_wide(content: bytes) -> str | None:
    """Return the text of UTF-16 without a byte order mark, or None if it is not UTF-16.

    In UTF-16, the ASCII characters of markup have their zero byte on the same side. Other encodings
    have no zero bytes.
    """
    begin = content[:_SAMPLE]
    half = max(len(begin) // 2, 1)
    shares = (begin[1::2].count(0) / half, begin[::2].count(0) / half)
    for name, share, other in zip(_UTF16, shares, reversed(shares), strict=True):
        # Hangul and other scripts also have some zero bytes on the other side.
        if share >= max(_FEWEST_ZEROS, other * _TIMES_MORE):
            return content.decode(name, "replace")
    return None


def _is_utf8(content: bytes, declared: list[str]) -> bool:
    """Return whether valid UTF-8 really is UTF-8, despite another declared encoding."""
    others = [name for name in declared if name != "utf-8"]
    if not others or content.isascii():
        # Escapes of ISO-2022 and HZ are ASCII.
        return not others or not others[0].startswith(("iso2022", "hz"))
    if not any(name in _COMMON for name in others):
        return True
    return sum(1 for _ in zip(range(_SURE), _MULTIBYTE.finditer(content), strict=False)) == _SURE


def _is_mostly_utf8(content: bytes) -> bool:
    """Return whether most non-ASCII bytes form UTF-8, so that only a few bytes are damaged."""
    whole = sum(len(found[0]) for found in _MULTIBYTE.finditer(content))
    others = len(content) - len(content.translate(None, bytes(range(0x80, 0x100))))
    return whole * 2 > others + 2


def _decode_legacy(content: bytes, declared: list[str]) -> str:
    # cp1252 comes last, because nearly all bytes are valid in cp1252.
    candidates = list(dict.fromkeys((*declared, _guess(content) or "utf-8", "cp1252")))
    for name in candidates:
        text = _decode_strictly(content, name)
        fewest = _ENOUGH if name in declared else 1
        if text is not None and not _is_noise(text, name, fewest):
            return text
    texts = (content.decode(name, "replace") for name in candidates)
    return min(texts, key=lambda text: text.count(_REPLACED))


def _decode_strictly(content: bytes, name: str) -> str | None:
    try:
        return content.decode(name)
    except (UnicodeError, LookupError):
        return None


def _is_noise(text: str, name: str, fewest: int) -> bool:
    """Return whether the bytes of a text are probably in another encoding, not double-byte.

    In misread text, wide characters are isolated within ASCII words, or are mostly rare characters.
    Fewer than `fewest` wide characters are no evidence.
    """
    common = _COMMON.get(name)
    drawn = _WIDE.findall(text)[:_MOST_DRAWN] if common else []
    if not common or len(drawn) < fewest:
        return False
    isolated = len(_ISOLATED.findall(text)) / max(len(_WIDE.findall(text)), 1)
    firsts = [each.encode(name, "replace")[0] for each in drawn]
    share = sum(first in common for first in firsts) / len(firsts)
    return isolated > _MOST_ISOLATED or share < _FEWEST_COMMON
