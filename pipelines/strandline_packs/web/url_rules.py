"""Lists of domains, addresses and words that a URL is held against.

Pure. It knows URLs, no tables, and not where the lists come from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

_BREAKS = re.compile(r"[^0-9a-z]+")
_HOST = re.compile(r"[^/?#]*")


class UrlRules(NamedTuple):
    """What makes a URL unwanted. All of it is in lower case, but paths and queries of `urls`.

    Attributes:
        domains: hosts, with all that is below them.
        urls: whole addresses, as `normalise_url` gives them.
        words: what stands between two characters that are no letters or digits.
        subwords: what stands anywhere, once such characters are taken out.
        soft_words: words of which `most_soft_words` are borne.
        most_soft_words: how many different ones.
    """

    domains: frozenset[str] = frozenset()
    urls: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    subwords: frozenset[str] = frozenset()
    soft_words: frozenset[str] = frozenset()
    most_soft_words: int = 1


def find_fault(url: str, rules: UrlRules) -> str:
    """Return why a URL is unwanted, the first reason of several; empty where it is wanted."""
    lowered = url.strip().lower()
    host = _find_host(lowered)
    if not host:
        return "no URL"
    if not rules.domains.isdisjoint(_list_parents(host)):
        return "listed domain"
    if rules.urls and normalise_url(url) in rules.urls:
        return "listed URL"
    words = set(_BREAKS.split(lowered))
    if not rules.words.isdisjoint(words):
        return "listed word in the URL"
    return _find_soft_fault(lowered, words, rules)


def _find_soft_fault(url: str, words: set[str], rules: UrlRules) -> str:
    if len(rules.soft_words & words) > rules.most_soft_words:
        return "soft words in the URL"
    joined = _BREAKS.sub("", url) if rules.subwords else ""
    if any(word in joined for word in rules.subwords):
        return "listed part of a word in the URL"
    return ""


def _find_host(url: str) -> str:
    try:
        return (urlsplit(url if "://" in url else f"//{url}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _list_parents(host: str) -> Iterator[str]:
    """Yield a host and the domains above it, such as `a.b.example`, `b.example`, `example`."""
    while host:
        yield host
        host = host.partition(".")[2]


def normalise_url(url: str) -> str:
    """Return a URL without its scheme and the slash at its end; its host is in lower case.

    The case of a path and of a query counts: on most servers they are other pages.
    """
    rest = url.strip()
    scheme, found, after = rest.partition("://")
    # A URL within a query is no scheme.
    rest = after if found and scheme.isalnum() else rest
    host = _HOST.match(rest)
    end = host.end() if host else 0
    return (rest[:end].lower() + rest[end:]).rstrip("/")
