"""Turns lines into text: repairs characters and hyphenation, and measures garbling."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from string import ascii_lowercase

from strandline_packs.pdf.page_lines import Break, PageLine

SOFT_HYPHEN = "\xad"
_HYPHENS = ("-", "\u2010", SOFT_HYPHEN)
# Glyphs that stand for other characters: Kangxi radicals, ligatures, and forms of Arabic letters.
_FORMS = re.compile("[\u2f00-\u2fd5\ufb00-\ufb06\ufb13-\ufb17\ufb50-\ufdfb\ufe70-\ufefc]")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2060\ufeff\ufffe\uffff]")
_SPACES = re.compile(r"[\s\u00a0]+")
_COMPOUND = re.compile(r"\w+(?:-\w+)+")
_LETTERS = re.compile(r"[^\W\d_]")
_BAD = {"Cc", "Cn", "Co", "Cs"}
_BAD_WEIGHT = 5.0  # a fifth of bad characters makes a text worthless
_SAMPLE = 4000  # characters that are measured
_ENOUGH = 100  # Latin letters for a judgment about vowels
_VOWELS = 0.25  # minimum share of vowels among Latin letters, lower than in any known language
_ENDINGS = tuple('.!?:;。！？…"”»）)|')  # a table in Markdown ends with a bar


def repair_characters(text: str) -> str:
    """Replace ligatures and presentation forms, drop control characters, and merge spaces."""
    text = _FORMS.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    return _SPACES.sub(" ", _CONTROLS.sub("", text)).strip()


def join_lines(lines: Sequence[PageLine]) -> str:
    """Return the text of lines. Paragraphs are separated by an empty line."""
    texts = [line.text for line in lines if "-" in line.text]
    known = {found.lower() for text in texts for found in _COMPOUND.findall(text)}
    parts: list[str] = []
    for line in lines:
        if not parts:
            parts.append(line.text)
            continue
        before = parts[-1]
        start = line.start
        if start is Break.COLUMN:
            start = Break.FLOW if continues(before, line.text) else Break.PARAGRAPH
        if start is Break.PARAGRAPH:
            parts.append("\n\n" + line.text)
        elif start is Break.LINE and not _ends_with_hyphen(before, line.text):
            parts.append("\n" + line.text)
        else:
            # Only the last part changes, so that joining stays linear.
            parts[-1], text = _join_words(before, line.text, known)
            parts.append(text)
    return "".join(parts).replace(SOFT_HYPHEN, "")


def continues(before: str, text: str) -> bool:
    """Return True if a text probably continues the sentence of the text before."""
    return bool(before) and text[:1].islower() and not before.rstrip().endswith(_ENDINGS)


def join_texts(texts: Iterable[str]) -> str:
    """Join the texts of successive pages. A sentence may continue on the next page."""
    parts: list[str] = []
    for text in filter(None, texts):
        if not parts:
            parts.append(text)
        elif continues(parts[-1], text):
            parts[-1], following = _join_words(parts[-1], text, set())
            parts.append(following)
        else:
            parts += ["\n\n", text]
    return "".join(parts)


def _ends_with_hyphen(before: str, text: str) -> bool:
    is_hyphenated = before.endswith(_HYPHENS) and bool(_LETTERS.match(before[-2:-1]))
    return is_hyphenated and text[:1].islower()


def _join_words(before: str, text: str, known: Iterable[str]) -> tuple[str, str]:
    """Return both texts with the space between them, and without a hyphen of the line break."""
    if before.endswith(_HYPHENS) and not before[-2:-1].isspace() and len(before) > 1:
        if not _ends_with_hyphen(before, text):
            return before, text
        word = before.rsplit(maxsplit=1)[-1] + text.split(maxsplit=1)[0]
        # Punctuation around the compound does not matter.
        compound = _COMPOUND.search(word.replace("\u2010", "-"))
        if compound and compound[0].lower() in known:
            return before, text
        return before[:-1], text
    if is_ideographic(before[-1:]) and is_ideographic(text[:1]):
        return before, text
    return before, " " + text


def is_ideographic(sign: str) -> bool:
    """Return True for characters of scripts without spaces between words."""
    if not sign:
        return False
    is_wide = unicodedata.east_asian_width(sign) in {"W", "F"}
    return is_wide and not "\uac00" <= sign <= "\ud7a3"  # Korean has spaces


def measure_confidence(text: str, unmapped: float = 0.0) -> float:
    """Return how likely a text layer contains the visible text, from 0 to 1.

    Args:
        unmapped: share of characters without a known Unicode value, from 0 to 1.
    """
    sample = text[:_SAMPLE]
    visible = len(sample) - sum(map(str.isspace, sample))
    if not visible:
        return 0.0
    bad = 0 if sample.isascii() else sum(map(_is_bad, sample))
    confidence = max(0.0, 1 - _BAD_WEIGHT * bad / visible)
    plain = unicodedata.normalize("NFD", sample).lower()
    letters = sum(map(plain.count, ascii_lowercase))
    if letters >= max(_ENOUGH, visible / 2):
        # Old fonts have no Unicode values, although their codes are those of ASCII.
        confidence *= min(1.0, sum(map(plain.count, "aeiouy")) / letters / _VOWELS)
    else:
        confidence *= 1 - unmapped
    return round(confidence, 4)


def _is_bad(sign: str) -> bool:
    return sign == "\ufffd" or unicodedata.category(sign) in _BAD
