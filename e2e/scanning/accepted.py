"""Vulnerabilities that are accepted for a limited time: ID, package, reason, and last day.

Entries without a reason or past their last day are rejected, so no exception is permanent.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from scanning.errors import ScanError

# Maximum time from today to an entry's last day, so that every entry is reviewed twice a year.
LONGEST = timedelta(days=183)
_KEYS = {"id", "package", "reason", "until"}
_SHORTEST_REASON = 20


@dataclass(frozen=True, slots=True)
class AcceptedVulnerability:
    """A vulnerability of a package that is accepted until a day, inclusive."""

    id: str
    package: str
    reason: str
    until: date


def read_accepted(text: str, today: date) -> tuple[AcceptedVulnerability, ...]:
    """Return the entries of a file.

    Raises:
        ScanError: if the file is not TOML, or if entries are expired or incomplete.
    """
    try:
        entries = tomllib.loads(text).get("accepted", [])
    except tomllib.TOMLDecodeError as error:
        msg = f"the accepted vulnerabilities can't be read: {error}"
        raise ScanError(msg) from error
    if not isinstance(entries, list):
        raise ScanError("accepted vulnerabilities are tables of the name [[accepted]]")
    problems = [f"{_name(entry)}: {why}" for entry in entries for why in _examine(entry, today)]
    keys = [_name(entry) for entry in entries]
    problems += sorted({f"{key}: it is there twice" for key in keys if keys.count(key) > 1})
    if problems:
        raise ScanError("accepted vulnerabilities: " + "; ".join(problems))
    return tuple(AcceptedVulnerability(**entry) for entry in entries)


def _name(entry: object) -> str:
    if not isinstance(entry, dict):
        return repr(entry)
    return f"{entry.get('id', 'no id')} in {entry.get('package', 'no package')}"


def _examine(entry: object, today: date) -> Iterator[str]:
    """Yield the problems of an entry."""
    if not isinstance(entry, dict) or set(entry) != _KEYS:
        yield f"it has to have {', '.join(sorted(_KEYS))}, and nothing else"
        return
    words = [entry[key] for key in ("id", "package", "reason")]
    if not all(isinstance(word, str) and word.strip() for word in words):
        yield "id, package and reason are texts"
    elif len(entry["reason"].strip()) < _SHORTEST_REASON:
        yield "its reason is a sentence: why does the vulnerability do no harm here?"
    until = entry["until"]
    if not isinstance(until, date) or isinstance(until, datetime):
        yield "until is a day, such as 2026-12-31"
    elif until < today:
        yield f"it was accepted until {until}; look at it again, or move to a version without it"
    elif until > today + LONGEST:
        yield f"{until} is too far away: none is accepted for more than {LONGEST.days} days"
