"""Reads an image's packages from its SPDX bill, named as in the scanner's vulnerability lists.

Debian's list is keyed by release and source package. A bill that lacks either would match nothing,
and the image would appear to have no vulnerabilities. This module must not depend on the scanner's
results.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote

from scanning.errors import ScanError

# Purposes of entries that represent the image itself, not a package.
_WHOLES = frozenset({"CONTAINER", "LIBRARY"})


class Part(NamedTuple):
    """A package: the name, version, and list under which its vulnerabilities are recorded."""

    ecosystem: str
    name: str
    version: str


def read_bill(text: str) -> tuple[Part, ...]:
    """Return the packages that an SPDX document lists.

    Raises:
        ScanError: if the document is not SPDX, lists nothing, or has an unsupported package.
    """
    try:
        packages = json.loads(text)["packages"]
        listed = [each for each in packages if each.get("primaryPackagePurpose") not in _WHOLES]
        parts = sorted({_read_address(url) for each in listed for url in _list_addresses(each)})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"this is no bill of an image: {error!r}"
        raise ScanError(msg) from error
    if not parts:
        raise ScanError("the bill lists no parts")
    return tuple(parts)


def render_parts(parts: tuple[Part, ...]) -> str:
    """Render the packages in the scanner's input format."""
    packages = [{"package": part._asdict()} for part in parts]
    return json.dumps({"results": [{"packages": packages}]}, indent=1) + "\n"


def _list_addresses(package: dict[str, Any]) -> Iterator[str]:
    references = package.get("externalRefs", [])
    found = [
        str(each["referenceLocator"]) for each in references if each["referenceType"] == "purl"
    ]
    if not found:
        msg = f"the bill does not say where {package['name']} comes from"
        raise ScanError(msg)
    yield from found


def _read_address(url: str) -> Part:
    """Parse a package URL, such as `pkg:deb/debian/libc6@2.36-9?distro=debian-12`."""
    head, _, tail = url.partition("?")
    kind, _, name = head.removeprefix("pkg:").partition("/")
    name, _, version = name.rpartition("@")
    if kind == "pypi":
        return Part("PyPI", unquote(name), unquote(version))
    system, _, name = name.partition("/")
    release = parse_qs(tail).get("distro", [""])[0].removeprefix("debian-")
    if (kind, system) != ("deb", "debian") or not release.isdecimal():
        why = "it is neither Python's nor of a Debian release"
        msg = f"no list of vulnerabilities is known for {url}: {why}"
        raise ScanError(msg)
    source, _, of_source = parse_qs(tail).get("upstream", [""])[0].partition("@")
    return Part(f"Debian:{release}", source or unquote(name), of_source or unquote(version))
