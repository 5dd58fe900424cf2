"""What the scanner has found, and which of it keeps an image from being released.

That is what is rated high or critical, or not rated at all, and has a version without it. It must
not know how the scanner was called.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scanning.accepted import Accepted
from scanning.errors import ScanError

# CVSS calls it high from here on.
HIGH = 7.0


@dataclass(frozen=True, slots=True)
class Finding:
    """A vulnerability in a part.

    Attributes:
        ids: all names of it, the scanner's first.
        severity: by CVSS; None where it is not rated.
        is_fixed: some version of the part is without it.
    """

    package: str
    version: str
    ids: tuple[str, ...]
    severity: float | None
    is_fixed: bool

    @property
    def is_severe(self) -> bool:
        """Whether it is to be mended before a release."""
        # An unrated vulnerability may be of any severity.
        return self.is_fixed and (self.severity is None or self.severity >= HIGH)

    def describe(self) -> str:
        """Describe it in a line."""
        rating = "not rated" if self.severity is None else f"CVSS {self.severity:g}"
        fix = "mended in a later version" if self.is_fixed else "not mended yet"
        return f"{self.package} {self.version}: {', '.join(self.ids)} ({rating}, {fix})"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Findings by what follows from them, and accepted vulnerabilities that nothing has."""

    severe: tuple[Finding, ...]
    accepted: tuple[Finding, ...]
    others: tuple[Finding, ...]
    unused: tuple[Accepted, ...]


def read_findings(text: str) -> tuple[Finding, ...]:
    """Return what the scanner's JSON tells.

    Raises:
        ScanError: it is something else.
    """
    try:
        results = json.loads(text)["results"]
        packages = [package for result in results for package in result["packages"]]
        return tuple(finding for package in packages for finding in _read_package(package))
    except (ValueError, KeyError, TypeError) as error:
        msg = f"the scanner's answer can't be read: {error!r}"
        raise ScanError(msg) from error


def judge(findings: Sequence[Finding], accepted: Sequence[Accepted]) -> Judgement:
    """Sort findings by what follows from them."""
    used = {finding: _find_accepted(finding, accepted) for finding in findings}
    is_used = {entry for entry in used.values() if entry is not None}
    return Judgement(
        severe=tuple(each for each, entry in used.items() if each.is_severe and entry is None),
        accepted=tuple(each for each, entry in used.items() if entry is not None),
        others=tuple(each for each, entry in used.items() if not each.is_severe and entry is None),
        unused=tuple(entry for entry in accepted if entry not in is_used),
    )


def _find_accepted(finding: Finding, accepted: Sequence[Accepted]) -> Accepted | None:
    return next(
        (
            entry
            for entry in accepted
            if entry.package == finding.package and entry.id in finding.ids
        ),
        None,
    )


def _read_package(package: Mapping[str, Any]) -> Iterator[Finding]:
    part = package["package"]
    known = {each["id"]: each for each in package["vulnerabilities"]}
    for group in package["groups"]:
        rating = group.get("max_severity") or None
        yield Finding(
            package=part["name"],
            version=part["version"],
            ids=tuple(dict.fromkeys([*group["ids"], *group.get("aliases", [])])),
            severity=None if rating is None else float(rating),
            is_fixed=any(_has_fix(known[name], part) for name in group["ids"]),
        )


def _has_fix(vulnerability: Mapping[str, Any], part: Mapping[str, str]) -> bool:
    """Return whether a version of the part, and not of another release, is without it."""
    of_part = (
        each
        for each in vulnerability.get("affected", [])
        if (each["package"]["ecosystem"], each["package"]["name"])
        == (part["ecosystem"], part["name"])
    )
    events = (
        event for each in of_part for span in each.get("ranges", []) for event in span["events"]
    )
    return any("fixed" in event for event in events)
