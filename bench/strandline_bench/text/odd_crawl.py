"""A crawl of pages with known text, in all the forms in which servers send pages.

Encodings, headers, and charsets are combined; half of the declarations about a page are wrong. The
same call gives the same bytes. This module must not depend on a reader.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from make_crawl import format_record, pack

_WORDS = {
    "en": "The keeper climbed the tower and lit the lamp “before” the sun went down.",
    "de": "Der Wärter stieg auf den Turm und zündete für die Schiffe die große Lampe an.",
    "pl": "Latarnik co wieczór wchodził na wieżę i zapalał lampę, zanim zaszło słońce.",
    "ru": "Смотритель каждый вечер поднимался на башню и зажигал лампу до захода солнца.",
    "el": "Φύλακες ανέβαιναν κάθε βράδυ στον πύργο και άναβαν τη λάμπα πριν από τη δύση.",
    "he": "השומר טיפס בכל ערב אל המגדל והדליק את המנורה לפני שקיעת השמש.",
    "ja": "灯台守は毎晩塔に登り、日が沈む前にランプをともしました。海はとても静かでした。",
    "zh": "守塔人每天晚上都登上灯塔。在太阳落山之前点亮灯火。海面非常平静。",
    "ko": "등대지기는 매일 저녁 탑에 올라가 해가 지기 전에 등불을 켰습니다. 바다는 고요했다.",
}
_ENCODINGS = (
    ("en", "utf-8"),
    ("en", "windows-1252"),
    ("de", "iso-8859-1"),
    ("de", "utf-8"),
    ("pl", "iso-8859-2"),
    ("pl", "windows-1250"),
    ("ru", "windows-1251"),
    ("ru", "koi8-r"),
    ("ru", "utf-8"),
    ("el", "iso-8859-7"),
    ("he", "windows-1255"),
    ("ja", "shift_jis"),
    ("ja", "euc-jp"),
    ("zh", "gb18030"),
    ("zh", "big5hkscs"),
    ("ko", "euc-kr"),
    ("ko", "utf-8"),
)
_WRONG = "iso-8859-1"


def _chunk(body: bytes) -> bytes:
    parts = [body[at : at + 120] for at in range(0, len(body), 120)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def _deflate(body: bytes) -> bytes:
    raw = zlib.compressobj(wbits=-15)
    return raw.compress(body) + raw.flush()


# Encodings of a body: the function that encodes the body, and the declared header.
_BODIES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "plain": (bytes, ""),
    "gzip": (lambda body: gzip.compress(body, mtime=0), "Content-Encoding: gzip\r\n"),
    "said to be gzip": (bytes, "Content-Encoding: gzip\r\n"),
    "x-gzip": (lambda body: gzip.compress(body, mtime=0), "Content-Encoding: x-gzip\r\n"),
    "raw deflate": (_deflate, "Content-Encoding: deflate\r\n"),
    "chunked": (_chunk, "Transfer-Encoding: chunked\r\n"),
    "said to be chunked": (bytes, "Transfer-Encoding: chunked\r\n"),
}


class OddPage(NamedTuple):
    """A page of the crawl.

    Attributes:
        url: address that identifies the page.
        charset: where the charset is declared, and whether the declaration is correct.
        body: encoding of the body.
        sentence: known text of the page.
        block: HTTP response with the page.
    """

    url: str
    charset: str
    body: str
    sentence: str
    block: bytes


def list_pages() -> Iterator[OddPage]:
    """Yield pages of all charsets with plain bodies, and of some charsets with encoded bodies."""
    number = 0
    for language, encoding in _ENCODINGS:
        for teller in ("by the server", "by the page", "by nobody", "wrongly by the server"):
            yield _make(number, language, encoding, teller, "plain")
            number += 1
    for language, encoding in _ENCODINGS[:6]:
        for body in _BODIES:
            yield _make(number, language, encoding, "by the server", body)
            number += 1


def _make(number: int, language: str, encoding: str, teller: str, body: str) -> OddPage:
    sentence = _WORDS[language].encode(encoding, "ignore").decode(encoding)
    meta = f'<meta charset="{encoding}">' if "page" in teller or "wrongly" in teller else ""
    page = f"<html><head>{meta}<title>{number}</title></head><body><p>{sentence * 8}</p></body>"
    charset = {"by the server": encoding, "wrongly by the server": _WRONG}.get(teller, "")
    kind = f"text/html; charset={charset}" if charset else "text/html"
    change, field = _BODIES[body]
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{field}\r\n"
    block = head.encode() + change(page.encode(encoding))
    return OddPage(f"https://example.com/{number}", teller, body, sentence, block)


def write_odd_crawl(folder: Path) -> list[OddPage]:
    """Write the pages as a WARC file, and return them."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = list(list_pages())
    packed = b"".join(pack(format_record(page.url, page.block)) for page in pages)
    (folder / "odd.warc.gz").write_bytes(packed)
    return pages
