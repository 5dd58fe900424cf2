"""Rules for unwanted URLs: domains, addresses, and words.

This module does no I/O, and must not depend on tables, or the origin of the lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

_BREAKS = re.compile(r"[^0-9a-z]+")
_HOST = re.compile(r"[^/?#]*")


class UrlRules(NamedTuple):
    """Rules for unwanted URLs, in lower case except for paths and queries in `urls`.

    Attributes:
        domains: hosts, including their subdomains.
        urls: whole addresses in the form of `normalise_url`.
        words: unwanted between two characters that are neither letters nor digits.
        subwords: unwanted anywhere, after removing such characters.
        soft_words: words that a URL may have up to `most_soft_words` times.
        most_soft_words: number of different soft words that are still accepted.
    """

    domains: frozenset[str] = frozenset()
    urls: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    subwords: frozenset[str] = frozenset()
    soft_words: frozenset[str] = frozenset()
    most_soft_words: int = 1


def find_fault(url: str, rules: UrlRules) -> str:
    """Return the first reason to drop a URL, or an empty string to keep the URL."""
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
        # Without a scheme, `urlsplit` finds a host only behind `//`. A final dot changes no host.
        return (urlsplit(url if "://" in url else f"//{url}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _list_parents(host: str) -> Iterator[str]:
    """Yield a host and the domains above it, such as `a.b.example`, `b.example`, `example`."""
    while host:
        yield host
        host = host.partition(".")[2]


def normalise_url(url: str) -> str:
    """Return a URL without its scheme and final slash, and with its host in lower case.

    Paths and queries keep their case, because on most servers they are case-sensitive.
    """
    rest = url.strip()
    scheme, found, after = rest.partition("://")
    # Keep the scheme of a URL within a query.
    rest = after if found and scheme.isalnum() else rest
    host = _HOST.match(rest)
    end = host.end() if host else 0
    return (rest[:end].lower() + rest[end:]).rstrip("/")
