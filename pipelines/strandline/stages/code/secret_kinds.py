"""Credentials in code: tokens with a known shape, assigned passwords, strings of high entropy.

Pure text. It finds what looks like a secret; it can't know whether one is in use.
"""

from __future__ import annotations

import math
import re
from collections import Counter

from strandline.stages.text.addresses import RedactionRule

REPLACEMENT = "<SECRET>"
_ALPHABETS = ("abcdef", "ABCDEF", "012345")

_TOKENS = (
    r"(?:AKIA|ASIA)[0-9A-Z]{16}",
    r"gh[pousr]_[A-Za-z0-9]{36,255}",
    r"github_pat_[A-Za-z0-9_]{22,255}",
    r"glpat-[A-Za-z0-9_-]{20,64}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,255}",
    r"AIza[0-9A-Za-z_-]{35}",
    r"[rs]k_(?:live|test)_[0-9a-zA-Z]{16,255}",
    r"sk-[A-Za-z0-9_-]{32,255}",
    r"hf_[A-Za-z0-9]{30,255}",
    r"pypi-[A-Za-z0-9_-]{50,255}",
    r"eyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,4000}",
)
_TOKEN_HINTS = ("AKIA", "ASIA", "gh", "glpat-", "xox", "AIza", "k_", "sk-", "hf_", "pypi-", "eyJ")
_WORD_HINTS = ("assw", "ASSW", "ecret", "ECRET", "key", "Key", "KEY", "oken", "OKEN")
_WORDS = r"(?:password|passwd|secret|api_?key|access_?key|access_?token|auth_?token|client_?secret)"


def measure_entropy(text: str) -> float:
    """Shannon entropy in bits per character; 0 for empty text."""
    total = len(text)
    shares = [number / total for number in Counter(text).values()]
    return -sum(share * math.log2(share) for share in shares)


def build_secret_kinds(min_length: int, min_entropy: float) -> tuple[RedactionRule, ...]:
    """Return the kinds of secrets, the surest first.

    Args:
        min_length: characters of a quoted string that is judged by its entropy.
        min_entropy: bits per character from which such a string is a secret.
    """

    def looks_random(text: str) -> bool:
        if any(alphabet in text for alphabet in _ALPHABETS):
            return False
        mixed = any(map(str.isdigit, text)) and any(map(str.isalpha, text))
        return mixed and measure_entropy(text) >= min_entropy

    quoted = rf"(?P<quote>[\"'])(?P<value>[A-Za-z0-9+/=_-]{{{min_length},512}})(?P=quote)"
    return (
        *_FIXED_KINDS,
        RedactionRule("random string", re.compile(quoted), REPLACEMENT, looks_random),
    )


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


_FIXED_KINDS = (
    RedactionRule(
        "private key",
        re.compile(
            r"-----BEGIN (?:[A-Z]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:[^<]{0,20000}?-----END (?:[A-Z]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            r"|(?:\s{1,80}[A-Za-z0-9+/=]{16,80}(?![A-Za-z0-9+/=]))*)"
        ),
        REPLACEMENT,
        hints=("PRIVATE KEY",),
    ),
    RedactionRule(
        "token",
        re.compile(rf"(?<![A-Za-z0-9_-])(?:{'|'.join(_TOKENS)})(?![A-Za-z0-9_])"),
        REPLACEMENT,
        hints=_TOKEN_HINTS,
    ),
    RedactionRule(
        "password in URL",
        re.compile(r"://[^/\s:@<>\"']{1,64}:(?P<value>[^/\s:@<>\"'{}$%]{3,128})@"),
        REPLACEMENT,
        hints=("://",),
    ),
    RedactionRule(
        "assigned secret",
        re.compile(
            rf"(?i){_WORDS}[\"']?\s{{0,3}}[:=]\s{{0,3}}"
            r"(?P<quote>[\"'])(?P<value>[^\"'\s<>{}]{8,200})(?P=quote)"
        ),
        REPLACEMENT,
        _has_digit,
        hints=_WORD_HINTS,
    ),
)
