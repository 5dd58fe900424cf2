"""Documents for comparing filters: texts from this machine, and texts generated from these.

The same machine gives the same documents. This module must not depend on the filters.
"""

from __future__ import annotations

import gzip
import random
import re
import sysconfig
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path

_MOST = 8_000
_SUFFIXES = {".md", ".rst", ".txt", ".html", ".py"}
_MARKUP = re.compile(r"^\.?'?[.'].*$|\\[fs]\S|\\&|\\", re.MULTILINE)
_PROSE = re.compile(r"(?<!\S)[A-Z][a-z]*(?: [a-z]+,?){5,25}[.!?](?!\S)")
_TAGS = re.compile(r"<(script|style).*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_SENTENCES = {
    "en": "The tide comes in twice a day and covers the rocks. | Nobody has to climb the stairs. | "
    'Have you been with the keeper of that house? | What he said to them was "stop."',
    "de": "Das Wasser kommt zweimal am Tag und bedeckt die Felsen. | Der Wärter sieht das Meer. | "
    "Wer ist mit dem Boot gekommen? | Die Lampe brennt die ganze Nacht!",
    "fr": "La marée monte deux fois par jour et couvre les rochers. | Qui est venu ?",
    "es": "La marea sube dos veces al día y cubre las rocas. | ¿Quién ha venido con el barco?",
    "ja": "潮は一日に二回満ちて、岩を覆います。| 灯台守は海を見ています。",
    "hi": "समुद्र का पानी दिन में दो बार आता है। | लोग पक्षियों को देखने आते हैं।",
}
_LINES = (
    "Home", "Menu", "• first of them", "- an item of a list", "Read more...", "Share this…",
    "We use cookies on this page.", "Please enable JavaScript in your browser.", "# # # #", "2024",
    "Terms of use and privacy policy apply.", "lorem ipsum dolor sit amet is what it says.",
    "if (x) { return y; }", "The house was built in 1823. [1]", "It ends in a blank. ", "► ■ ► ■",
    "Subscribe to the news of the town today!", "", "", "w" * 1200 + " is a long word of it.",
)  # fmt: skip


def list_documents(count: int, seed: int = 7) -> list[str]:
    """Return documents: up to half from this machine, the rest generated."""
    found = list(islice(_read_installed(), count // 2))
    made = generate_documents(found, seed)
    return found + list(islice(made, count - len(found)))


def generate_documents(texts: list[str], seed: int) -> Iterator[str]:
    """Yield documents endlessly, with repetition, boilerplate, lists, and several languages."""
    chance = random.Random(seed)  # noqa: S311 - samples, not secrets
    while True:
        if texts and chance.random() < 0.5:
            yield _write_prose(chance, texts)
            continue
        parts = [_draw_part(chance, texts) for _ in range(chance.randint(1, 14))]
        if chance.random() < 0.25:
            parts += chance.choices(parts, k=chance.randint(1, 4))
        text = chance.choice(["\n", "\n", "\n\n", " "]).join(parts)
        yield text.replace("\n", "\r\n") if chance.random() < 0.03 else text


def _write_prose(chance: random.Random, texts: list[str]) -> str:
    """Return lines of real sentences, which filters are expected to keep."""
    lines: list[str] = []
    while len(lines) < chance.randint(3, 30):
        found = _PROSE.findall(chance.choice(texts))
        if found:
            lines.append(" ".join(chance.sample(found, min(len(found), chance.randint(1, 4)))))
        elif chance.random() < 0.2:
            lines.append(chance.choice(_LINES))
    return "\n".join(lines)


def _draw_part(chance: random.Random, texts: list[str]) -> str:
    kind = chance.random()
    if kind < 0.3:
        return chance.choice(_LINES)
    if kind < 0.6 or not texts:
        sentences = chance.choice(list(_SENTENCES.values())).split("|")
        return " ".join(chance.choice(sentences).strip() for _ in range(chance.randint(1, 6)))
    text = chance.choice(texts)
    start = chance.randrange(len(text))
    return text[start : start + chance.randint(40, 900)]


def _read_installed() -> Iterator[str]:
    """Yield texts alternately from manual pages and from installed packages."""
    manuals = sorted(Path("/usr/share/man").rglob("*.gz"))
    packages = Path(sysconfig.get_path("purelib"))
    files = (path for path in sorted(packages.rglob("*")) if path.suffix in _SUFFIXES)
    for pair in zip_longest(manuals[::5], islice(files, 0, None, 7)):
        for path in filter(None, pair):
            text = _read(path)
            if len(text) > 200:
                yield text


def _read(path: Path) -> str:
    try:
        if path.suffix == ".gz":
            return _MARKUP.sub("", gzip.decompress(path.read_bytes()).decode("utf-8", "replace"))[
                :_MOST
            ]
        text = path.read_text("utf-8", "replace")[:_MOST]
    except OSError:
        return ""
    return _TAGS.sub("", text) if path.suffix == ".html" else text
