"""Writes the crawl of `fineweb.yaml`: a WARC file with pages and the other records of a crawl.

python pipelines/examples/make_crawl.py FOLDER [--pages N | --megabytes N] [--seed N]

Pages are sentences of a small grammar in three languages, between menus and footers. Some pages are
exact or near copies of earlier pages; others are lists, spam, error pages, or broken. With
--megabytes, the program also adds the documents of the packages and manuals on this machine.
Without these documents, the same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import html
import random
import sys
import sysconfig
import uuid
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

DATE = "2026-05-04T03:02:01Z"
FILE_PAGES = 400  # pages per file, so that a large crawl consists of several files
KINDS = ("prose", "prose", "copy", "prose", "reprint", "contact", "prose", "repeating", "short",
         "list", "spam", "prose", "code", "missing", "image", "unclosed", "prose")  # fmt: skip

# Any five words of a sentence must be rare, as they are in prose; otherwise, all pages would be
# dropped.
NOUNS = """
keeper sailor sister fisherman painter teacher merchant neighbour engineer twin map bell letter
marsh basket oar song lantern compass barrel drawing shell key blanket cliff kitchen shore dune pier
chapel school schooner bridge street well market fog winter fair tide storm comet ice afternoon
ferry village harbour island captain doctor dog tower boat net kettle
"""
ADJECTIVES = """
young old quiet narrow wooden broken red brass grey torn unusual heavy distant patient famous hungry
gentle stubborn curious northern ruined shallow golden empty crowded careful sudden silent clever
forgotten rusty pale
"""
VERBS = """
carried found described counted repaired hid sold drew followed remembered painted lost borrowed
watched praised measured bought cleaned feared mended
"""
WAYS = "below behind beside near along under above beyond after before with without"
ARTICLES = "the the a every this her his our"

# Words of other languages: subjects, verbs, objects, places, times. A sentence has one of each.
GRAMMAR = {
    "de": (
        "der Wärter|eine junge Lehrerin|der alte Fischer|niemand|die Schwester|unsere Nachbarin",
        "suchte|fand|vergaß niemals|brachte|zeichnete|verkaufte|zählte|beschrieb|behielt|verlor",
        "eine alte Karte|die Glocke|sieben Briefe|einen Korb voll Äpfel|das Ruder|die Laterne",
        "unter den Klippen|in der Küche|am Ufer|zwischen den Dünen|neben der Kapelle|auf dem Markt",
        "nach einem langen Winter|kurz nach Mitternacht|während des Sturms|am zweiten Tag",
    ),
    "fr": (
        "le gardien du phare|une jeune institutrice|le vieux pêcheur|la sœur|notre voisine",
        "cherchait|a trouvé|n'oubliait jamais|rapportait|dessinait|vendait|comptait|gardait",
        "une carte déchirée|la cloche|sept lettres|un panier de pommes|la lanterne rouge",
        "sous les falaises|dans la cuisine|le long de la côte|entre les dunes|au marché",
        "après un long hiver|peu après minuit|pendant la grande tempête|à marée basse",
    ),
}
MACHINE = "docs.example"  # host name for documents of this machine
OK = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8"


class CrawledPage(NamedTuple):
    """A server's response for a page. `of` is the number of the page that this page copies."""

    url: str
    kind: str
    language: str
    head: str
    body: bytes
    of: int | None = None


def list_pages(number: int, seed: int = 0) -> list[CrawledPage]:
    """Return the first pages of the endless sequence that a seed determines."""
    return [make_page(at, seed) for at in range(number)]


def make_page(number: int, seed: int = 0) -> CrawledPage:
    """Return a page. The page depends only on its number and the seed."""
    chance = random.Random(f"{seed}/{number}")  # noqa: S311 - samples, not secrets
    kind, language = KINDS[number % len(KINDS)], ("en", "en", "de", "en", "fr")[number % 5]
    host = "casino-free-spins.example" if kind == "spam" else f"site{number % 11}.example"
    url = f"https://{host}/{kind}/{number}.html"
    if kind == "missing":
        head = "HTTP/1.1 404 Not Found\r\nContent-Type: text/html"
        return CrawledPage(url, kind, language, head, b"<html><h1>Not found</h1></html>")
    if kind == "image":
        head = "HTTP/1.1 200 OK\r\nContent-Type: image/png"
        return CrawledPage(url, kind, language, head, b"\x89PNG\r\n" + chance.randbytes(300))
    if kind in {"copy", "reprint"}:
        return _copy_page(number, seed, url, kind)
    lines = write_lines(kind, language, chance)
    return CrawledPage(url, kind, language, OK, _render(lines, kind).encode())


def write_lines(kind: str, language: str, chance: random.Random) -> list[str]:
    """Return the lines of a page's main text."""
    if kind == "short":
        return [write_sentence(language, chance)]
    if kind == "list":
        return [_draw(NOUNS, chance) for _ in range(80)]
    if kind == "repeating":
        return [" ".join([write_sentence(language, chance)] * 3) for _ in range(2)] * 4
    lines = [
        " ".join(write_sentence(language, chance) for _ in range(chance.randint(3, 6)))
        for _ in range(chance.randint(5, 9))
    ]
    if kind == "code":
        lines.append("This page shows how they count: while (boats) { count(boats); }.")
    if kind == "contact":
        lines.append(
            f"Write to keeper{chance.randint(1, 99)}@lighthouse.example or to 8.8.4.4 now."
        )
    return lines


def write_sentence(language: str, chance: random.Random) -> str:
    """Return a sentence that a reader of the language would accept as natural."""
    if language == "en":
        parts = [_write_phrase(chance) for _ in range(chance.randint(2, 4))]
        ways = [f" {_draw(WAYS, chance)} " for _ in parts[2:]]
        tail = "".join(way + part for way, part in zip(ways, parts[2:], strict=True))
        return _end(f"{parts[0]} {_draw(VERBS, chance)} {parts[1]}{tail}", chance)
    slots = (chance.choice(words.split("|")) for words in GRAMMAR[language])
    who, does, what, where, when = slots
    # German wants its verb in the second position.
    start = f"{when} {does} {who}" if language == "de" else f"{when} {who} {does}"
    return _end(f"{start} {what} {where}", chance)


def _write_phrase(chance: random.Random) -> str:
    word = _draw(ADJECTIVES, chance)
    article = _draw(ARTICLES, chance)
    article = "an" if article == "a" and word[0] in "aeiou" else article
    more = chance.choice(
        ("", f" of the {_draw(NOUNS, chance)}", f" and that {_draw(NOUNS, chance)}")
    )
    return f"{article} {word} {_draw(NOUNS, chance)}{more}"


def _draw(words: str, chance: random.Random) -> str:
    return chance.choice(words.split())


def _end(text: str, chance: random.Random) -> str:
    return f"{text[0].upper()}{text[1:]}{chance.choice('...!')}"


def read_installed() -> Iterator[CrawledPage]:
    """Yield the documents of installed packages and the manuals on this machine, as pages."""
    packages = Path(sysconfig.get_path("purelib"))
    found = (path for path in sorted(packages.rglob("*")) if path.suffix in _READERS)
    for path in (*found, *sorted(Path("/usr/share/man").rglob("*.gz"))):
        try:
            body = _READERS[path.suffix](path.read_bytes())
        except (OSError, EOFError):
            continue
        url = f"https://{MACHINE}/{path.parent.name}/{path.name}.html"
        yield CrawledPage(url, "installed", "en", OK, body)


def format_record(
    url: str, block: bytes, kind: str = "response", mime: str = "application/http; msgtype=response"
) -> bytes:
    """Return one uncompressed WARC record. Its ID derives from its URL and content."""
    identity = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind} {url} {len(block)}")
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{identity}>\r\n"
        f"WARC-Date: {DATE}\r\nWARC-Target-URI: {url}\r\nContent-Type: {mime}\r\n"
        f"Content-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def pack(record: bytes) -> bytes:
    """Compress a record as a separate gzip member."""
    return gzip.compress(record, compresslevel=6, mtime=0)


def write_crawl(folder: Path, pages: Iterable[CrawledPage], most: int | None = None) -> int:
    """Write files of pages until no page is left or the files have `most` bytes.

    Return the bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    left, size = iter(pages), 0
    for number in count():
        part = list(islice(left, FILE_PAGES))
        if not part or (most is not None and size >= most):
            return size
        packed = [pack(_format_page(page)) for page in part]
        packed[-1] = packed[-1][:-40] if number == 0 else packed[-1]  # real crawls are truncated
        content = b"".join(packed)
        (folder / f"crawl-{number:05d}.warc.gz").write_bytes(content)
        size += len(content)
    return size


def _copy_page(number: int, seed: int, url: str, kind: str) -> CrawledPage:
    """Return an earlier page at another URL. A copy that is not a reprint gets one more sentence.

    Reprints copy much earlier pages, so both pages seldom are in the same file or range.
    """
    start = number - 1 if kind == "copy" else number // 2
    of = next(at for at in range(start, -1, -1) if KINDS[at % len(KINDS)] == "prose")
    page, chance = make_page(of, seed), random.Random(f"{seed}/{number}")  # noqa: S311 - as above
    more = f" {write_sentence(page.language, chance)}</p>".encode()
    body = page.body if kind == "reprint" else page.body.replace(b"</p>", more, 1)
    return page._replace(url=url, kind=kind, body=body, of=of)


def _render(lines: list[str], kind: str) -> str:
    close = "" if kind == "unclosed" else "</p>"
    main = "\n".join(f"<p>{html.escape(line)}{close}" for line in lines)
    menu = "".join(f'<li><a href="/{word}">{word}</a></li>' for word in ("home", "news", "login"))
    body = (
        f'<nav><ul>{menu}</ul></nav><div class="ad">BUY NOW! LIMITED OFFER!</div>\n'
        f"<article>{main}</article>\n<footer>Copyright. All rights reserved. Imprint.</footer>"
    )
    ending = "" if kind == "unclosed" else "</body></html>"
    head = '<meta charset="utf-8"><title>Page</title>'
    return f"<!doctype html><html><head>{head}</head><body>{body}{ending}"


def _render_text(raw: bytes) -> bytes:
    parts = raw.decode("utf-8", "replace").split("\n\n")
    return _render([" ".join(part.split()) for part in parts if part.strip()], "prose").encode()


_READERS: dict[str, Callable[[bytes], bytes]] = {
    ".html": bytes,
    ".md": _render_text,
    ".rst": _render_text,
    ".txt": _render_text,
    ".gz": lambda raw: _render_text(gzip.decompress(raw)),
}


def _format_page(page: CrawledPage) -> bytes:
    length = f"\r\nContent-Length: {len(page.body)}\r\n\r\n"
    return format_record(page.url, (page.head + length).encode() + page.body)


def _mix(seed: int) -> Iterator[CrawledPage]:
    """Yield pages endlessly, mixed with documents from this machine."""
    installed = read_installed()
    for number in count():
        yield make_page(number, seed)
        yield from islice(installed, 1)


def main() -> None:
    """Write the files that the command line requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", type=int, default=170)
    parser.add_argument("--megabytes", type=int)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.megabytes:
        size = write_crawl(asked.folder, _mix(asked.seed), asked.megabytes << 20)
    else:
        size = write_crawl(asked.folder, list_pages(asked.pages, asked.seed))
    sys.stdout.write(f"{asked.folder}: {size:,} bytes\n")


if __name__ == "__main__":
    main()
