"""Extracts the main content of HTML pages with third-party libraries.

Every page starts with fresh library state. The code runs in a child process (`extractor_process`),
so a parser crash ends only the child. The module must not depend on tables.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from strandline_packs.web.page_charsets import decode_page


class ExtractionEngine(StrEnum):
    """A library that extracts main content."""

    TRAFILATURA = "trafilatura"
    RESILIPARSE = "resiliparse"


class Favour(StrEnum):
    """Preference for blocks that may or may not be content."""

    PRECISION = "precision"
    BALANCED = "balanced"
    RECALL = "recall"


class ExtractionSettings(NamedTuple):
    """Settings of the extraction.

    Attributes:
        engine: the library.
        favour: drop possible boilerplate (precision), or keep it (recall).
        tables, comments, links: keep these elements.
        deduplicate: drop repeated blocks of a page; trafilatura only.
    """

    engine: ExtractionEngine = ExtractionEngine.TRAFILATURA
    favour: Favour = Favour.PRECISION
    tables: bool = True
    comments: bool = False
    links: bool = False
    deduplicate: bool = False


def create_extractor(settings: ExtractionSettings) -> Callable[[bytes, str], str]:
    """Return a function that takes bytes and charset, and returns a page's text, possibly empty."""
    if settings.engine is ExtractionEngine.RESILIPARSE:
        return _create_resiliparse(settings)
    return _create_trafilatura(settings)


def _create_resiliparse(settings: ExtractionSettings) -> Callable[[bytes, str], str]:
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415 - an extra's

    skipped = [] if settings.tables else ["table"]

    def extract(content: bytes, charset: str) -> str:
        return extract_plain_text(
            decode_page(content, charset),
            main_content=settings.favour is not Favour.RECALL,
            alt_texts=settings.favour is Favour.RECALL,
            links=settings.links,
            comments=settings.comments,
            skip_elements=skipped,
        ).strip()

    return extract


def _create_trafilatura(settings: ExtractionSettings) -> Callable[[bytes, str], str]:
    from trafilatura import extract as extract_text  # noqa: PLC0415 - an extra's
    from trafilatura.deduplication import LRU_TEST  # noqa: PLC0415 - the same

    def extract(content: bytes, charset: str) -> str:
        # Clear the cache of seen blocks: the text of a page must not depend on other pages.
        LRU_TEST.clear()
        text = extract_text(
            decode_page(content, charset),
            favor_precision=settings.favour is Favour.PRECISION,
            favor_recall=settings.favour is Favour.RECALL,
            include_tables=settings.tables,
            include_comments=settings.comments,
            include_links=settings.links,
            deduplicate=settings.deduplicate,
        )
        return (text or "").strip()

    return extract
