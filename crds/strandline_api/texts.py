"""Makes text from other programs safe to store and show.

Logs, file names, and other programs may contain anything. Text in a status must be valid Unicode,
of bounded length, and free of apparent secrets. This module recognizes secrets only by their form:
it can't determine whether a secret is in use, or find a secret without a typical form. It must not
depend on the subject of a text.
"""

import re
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import NamedTuple

CUT = "..."
SECRET = "<SECRET>"  # noqa: S105 - what is written in the place of one


class RedactionRule(NamedTuple):
    """A kind of text to replace.

    Attributes:
        name: name of the kind, for counters.
        regex: matches candidates. A group `value` limits the replacement to that group.
        replacement: the new text.
        holds: function that returns True if a candidate is to be replaced.
        hints: strings of which every match contains at least one, to skip useless searches; empty
            to search always.
        choices: replacements used instead of `replacement`; the found text determines the choice.
        end: pattern of the end of the text to replace. If a match of `end` follows soon, everything
            up to it is replaced too.
    """

    name: str
    regex: re.Pattern[str]
    replacement: str
    holds: Callable[[str], bool] = bool
    hints: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    end: re.Pattern[str] | None = None

    def choose(self, value: str) -> str:
        """Return the replacement of a value, always the same for the same value."""
        if not self.choices:
            return self.replacement
        digest = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return self.choices[int.from_bytes(digest, "big") % len(self.choices)]


def _ignore(name: str) -> None:
    """Ignore a replacement. Used if the caller passes no counter."""


def redact(
    text: str, kinds: Iterable[RedactionRule], count: Callable[[str], None] = _ignore
) -> str:
    """Replace all matches in a text, and repeat until no match remains.

    Args:
        text: any text.
        kinds: the rules, applied in order.
        count: function called with the rule's name for each replacement.
    """
    chosen = tuple(kinds)
    while True:
        changed = text
        for kind in chosen:
            if not kind.hints or any(hint in changed for hint in kind.hints):
                changed = _replace(changed, kind, count)
        if changed == text:
            return text
        text = changed


def _replace(text: str, kind: RedactionRule, count: Callable[[str], None]) -> str:
    if kind.end is not None:
        return _replace_to_end(text, kind, kind.end, count)
    group = "value" if "value" in kind.regex.groupindex else 0

    def replace_match(match: re.Match[str]) -> str:
        value = match[group]
        if not kind.holds(value):
            return match[0]
        count(kind.name)
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        return match[0][:start] + kind.choose(value) + match[0][end:]

    return kind.regex.sub(replace_match, text)


def _replace_to_end(
    text: str, kind: RedactionRule, end: re.Pattern[str], count: Callable[[str], None]
) -> str:
    """Replace matches of a rule up to the next end, if the end is near and no `<` precedes it.

    Find all ends first: searching for an end from each match would take a second for 64 KiB of text
    that contains only beginnings.
    """
    ends = [(found.start(), found.end()) for found in end.finditer(text)]
    parts, at, next_end = [], 0, 0
    for match in kind.regex.finditer(text):
        # The previous replacement already covers this match.
        if match.start() < at:
            continue
        head, stop = match.start() + len(match["head"]), match.end()
        # Matches are in ascending order, so no later match needs an end before this match.
        while next_end < len(ends) and ends[next_end][0] < head:
            next_end += 1
        if next_end < len(ends):
            first, last = ends[next_end]
            if first - head <= _NEAR and text.find("<", head, first) < 0:
                stop = last
        parts += [text[at : match.start()], kind.choose(text[match.start() : stop])]
        count(kind.name)
        at = stop
    return "".join([*parts, text[at:]])


_NEAR = 20_000  # maximum length of a key in characters, including interspersed text
# Matches `RSA PRIVATE KEY-----` and `PGP PRIVATE KEY BLOCK-----`.
_KEY = r"(?:[A-Z]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
# Tokens of AWS, GitHub, GitLab, Slack, Google, Stripe, OpenAI, Hugging Face, and PyPI, and JSON Web
# Tokens. Maximum lengths bound the time spent on hostile text.
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
# Hints are case-sensitive, so they omit the first letter: `assw` occurs in `password` and
# `Password`.
_WORD_HINTS = ("assw", "ASSW", "ecret", "ECRET", "key", "Key", "KEY", "oken", "OKEN")
_WORDS = r"(?:password|passwd|secret|api_?key|access_?key|access_?token|auth_?token|client_?secret)"


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


# Secrets of a known form, the most certain first. Code that reads a password from elsewhere must
# not match.
SECRETS = (
    RedactionRule(
        "private key",
        re.compile(
            rf"(?P<head>-----BEGIN {_KEY})"
            r"(?:\s{1,80}[A-Za-z0-9+/=]{16,80}(?![A-Za-z0-9+/=]))*"
        ),
        SECRET,
        hints=("PRIVATE KEY",),
        end=re.compile(rf"-----END {_KEY}"),
    ),
    RedactionRule(
        "token",
        re.compile(rf"(?<![A-Za-z0-9_-])(?:{'|'.join(_TOKENS)})(?![A-Za-z0-9_])"),
        SECRET,
        hints=_TOKEN_HINTS,
    ),
    RedactionRule(
        "password in URL",
        # Braces, `$`, and `%` mean a placeholder, as in `user:${PASSWORD}@host`.
        re.compile(r"://[^/\s:@<>\"']{1,64}:(?P<value>[^/\s:@<>\"'{}$%]{3,128})@"),
        SECRET,
        hints=("://",),
    ),
    RedactionRule(
        "assigned secret",
        re.compile(
            rf"(?i){_WORDS}[\"']?\s{{0,3}}[:=]\s{{0,3}}"
            r"(?P<quote>[\"'])(?P<value>[^\"'\s<>{}]{8,200})(?P=quote)"
        ),
        SECRET,
        _has_digit,
        hints=_WORD_HINTS,
    ),
)

# Logs contain secrets in more forms than code does: values without quotes, headers, whole URLs.
_VALUE = r"(?P<value>[^\s\"'<>{},;&\\]{5,512})"
_QUOTE = r"\\?[\"']?"
_NAMES = (
    r"(?:pass(?:word|wd|phrase)|pwd|secret|token|credential"
    r"|(?:api|access|account|private|secret)[_-]?key)"
)
_NAME_HINTS = (*_WORD_HINTS, "pwd", "PWD", "assp", "ASSP", "redential", "REDENTIAL")
_SIGNATURE_HINTS = ("sig", "Sig", "SIG")
_HEADERS = r"(?:authorization|cookie|x-(?:api-key|auth[a-z-]{0,20}|[a-z-]{0,20}token))"


def _is_no_word(text: str) -> bool:
    # A value of letters only is prose, as in `password: required`.
    return not text.strip(".:!)").isalpha()


def _is_encoded(text: str) -> bool:
    """Return True if a text has digits, or capital letters after the first letter."""
    return _has_digit(text) or not text[1:].islower()


def _is_no_call(text: str) -> bool:
    """Return True if a text is a value, not a call or an index expression in a traceback's code."""
    return _has_digit(text) and not {"(", "["} & set(text)


_SECRETS_OF_LOGS = (
    *SECRETS,
    # Rest of a key that began before the first line of the excerpt.
    RedactionRule(
        "end of a private key",
        re.compile(rf"(?m)^(?:[A-Za-z0-9+/=]{{16,80}}\s{{1,4}}){{1,200}}-----END {_KEY}"),
        SECRET,
        hints=("-----END ",),
    ),
    RedactionRule(
        "password in URL",
        re.compile(r"://[^/\s:@<>\"']{0,64}:(?P<value>[^/\s@<>\"']{1,256})@"),
        SECRET,
        hints=("://",),
    ),
    RedactionRule(
        "token in URL",
        re.compile(r"://(?P<value>[A-Za-z0-9_-]{16,256})@"),
        SECRET,
        hints=("://",),
    ),
    RedactionRule(
        "header",
        re.compile(
            rf"(?i)(?<![\w-]){_HEADERS}{_QUOTE}\s{{0,3}}[:=]\s{{0,3}}{_QUOTE}"
            r"(?:(?:basic|bearer|digest|token)\s{1,3})?(?P<value>[^\s\"'<>,;\\]{6,4096})"
        ),
        SECRET,
        _is_encoded,
        hints=("uthorization", "UTHORIZATION", "ookie", "OOKIE", "X-", "x-"),
    ),
    RedactionRule(
        "credentials",
        re.compile(r"(?i)\b(?:basic|bearer)\s{1,3}(?P<value>[A-Za-z0-9._~+/=-]{8,4096})"),
        SECRET,
        _is_encoded,
        hints=("asic", "ASIC", "earer", "EARER"),
    ),
    # Values of options, variables, and query parameters, regardless of their form.
    RedactionRule(
        "assigned secret",
        re.compile(rf"(?i){_NAMES}{_QUOTE}={_QUOTE}{_VALUE}"),
        SECRET,
        hints=_NAME_HINTS,
    ),
    RedactionRule(
        "signature",
        # Matches `sig=…` and `X-Amz-Signature=…` in signed URLs, but not `design=…`.
        re.compile(rf"(?i)(?<![a-z])sig(?:nature)?={_VALUE}"),
        SECRET,
        hints=_SIGNATURE_HINTS,
    ),
    RedactionRule(
        "secret in a file of settings",
        re.compile(rf"(?i){_NAMES}{_QUOTE}\s{{1,3}}=\s{{1,3}}{_QUOTE}{_VALUE}"),
        SECRET,
        _is_no_call,
        hints=_NAME_HINTS,
    ),
    RedactionRule(
        "named secret",
        re.compile(rf"(?i){_NAMES}{_QUOTE}\s{{0,3}}:\s{{0,3}}{_QUOTE}{_VALUE}"),
        SECRET,
        _is_no_word,
        hints=_NAME_HINTS,
    ),
)


# Most sentences contain no hint of any rule, so check all hints with a single search first. An
# operator scrubs many sentences in each pass.
_ANY_HINT = re.compile(
    "|".join(sorted({re.escape(hint) for kind in _SECRETS_OF_LOGS for hint in kind.hints}))
)


def scrub(text: str) -> str:
    """Return a text without apparent secrets, for a log or a message."""
    return redact(text, _SECRETS_OF_LOGS) if _ANY_HINT.search(text) else text


def repair(text: str) -> str:
    """Escape invalid bytes of file names, which Python represents as lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def is_unicode(text: str) -> bool:
    """Return True if a text can be encoded as UTF-8. File names may contain invalid characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def cut(text: str, longest: int) -> str:
    """Repair a text, and truncate it to `longest` characters, including "..." at the end."""
    whole = repair(text)
    return whole if len(whole) <= longest else whole[: longest - len(CUT)] + CUT


def fitting(longest: int) -> Callable[[object], object]:
    """Return a validator that scrubs and truncates text, and returns other values unchanged.

    Scrub before truncating, because a truncated secret would not be recognized.
    """
    return lambda value: cut(scrub(value), longest) if isinstance(value, str) else value
