"""Findings of the scanner, and which of them block a release.

A finding blocks if its severity is high, critical, or unrated, and a fixed version exists. This
module must not depend on how the scanner is called.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scanning.accepted import AcceptedVulnerability
from scanning.errors import ScanError

# Lowest CVSS score with the rating "high".
HIGH = 7.0


@dataclass(frozen=True, slots=True)
class Finding:
    """A vulnerability in a package.

    Attributes:
        ids: all identifiers of the vulnerability, the scanner's first.
        severity: CVSS score, or None if unrated.
        is_fixed: whether a fixed version of the package exists.
    """

    package: str
    version: str
    ids: tuple[str, ...]
    severity: float | None
    is_fixed: bool

    @property
    def is_severe(self) -> bool:
        """Whether the vulnerability must be fixed before a release."""
        # An unrated vulnerability counts as severe, because its severity is unknown.
        return self.is_fixed and (self.severity is None or self.severity >= HIGH)

    def describe(self) -> str:
        """Describe the finding in a line."""
        rating = "not rated" if self.severity is None else f"CVSS {self.severity:g}"
        fix = "mended in a later version" if self.is_fixed else "not mended yet"
        return f"{self.package} {self.version}: {', '.join(self.ids)} ({rating}, {fix})"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Findings by consequence, and accepted entries that match no finding."""

    severe: tuple[Finding, ...]
    accepted: tuple[Finding, ...]
    others: tuple[Finding, ...]
    unused: tuple[AcceptedVulnerability, ...]


def read_findings(text: str) -> tuple[Finding, ...]:
    """Parse the scanner's JSON.

    Raises:
        ScanError: if the JSON has another structure.
    """
    try:
        results = json.loads(text)["results"]
        packages = [package for result in results for package in result["packages"]]
        return tuple(finding for package in packages for finding in _read_package(package))
    except (ValueError, KeyError, TypeError) as error:
        msg = f"the scanner's answer can't be read: {error!r}"
        raise ScanError(msg) from error


def judge(findings: Sequence[Finding], accepted: Sequence[AcceptedVulnerability]) -> Judgement:
    """Sort findings into severe, accepted, and others."""
    used = {finding: _find_accepted(finding, accepted) for finding in findings}
    is_used = {entry for entry in used.values() if entry is not None}
    return Judgement(
        severe=tuple(each for each, entry in used.items() if each.is_severe and entry is None),
        accepted=tuple(each for each, entry in used.items() if entry is not None),
        others=tuple(each for each, entry in used.items() if not each.is_severe and entry is None),
        unused=tuple(entry for entry in accepted if entry not in is_used),
    )


def _find_accepted(
    finding: Finding, accepted: Sequence[AcceptedVulnerability]
) -> AcceptedVulnerability | None:
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
    """Return whether a fixed version of the package exists in the same release."""
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
