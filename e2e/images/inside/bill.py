"""Lists an image's Python and Debian packages as an SPDX document.

Runs inside the build with the standard library only. Paths, name, and time are arguments instead of
facts of the machine, so the same packages give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

BUILD = Path("/build")
VENV = Path("opt/strandline")
BILL_PATH = Path("usr/share/strandline/sbom.spdx.json")
LICENSE = re.compile(r"[A-Za-z0-9.+\- ()]+")


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """A package: its system (`deb` or `pypi`), name, version, and license.

    Attributes:
        system: distribution release, such as `debian-12`, because vulnerability lists are per
            release.
        source: source package, `name` or `name@version`, if its name differs.
    """

    origin: str
    name: str
    version: str
    license: str = "NOASSERTION"
    architecture: str = ""
    system: str = ""
    source: str = ""


def main(arguments: Sequence[str]) -> None:
    """Write the SPDX document of an image into the product's root.

    Arguments: the image's name, and its time in seconds since 1970.
    """
    name, seconds = arguments
    root = BUILD / "product"
    folders = [location for base in (Path("/"), root) for location in find_folders(base / VENV)]
    system = read_system((BUILD / "os-release").read_text())
    debian = read_debian((BUILD / "status").read_text(), system)
    packages = [*read_python(folders), *debian]
    path = root / BILL_PATH
    path.parent.mkdir(parents=True)
    path.write_text(render(name, int(seconds), packages))


def find_folders(venv: Path) -> list[str]:
    """Return the package folders of a virtual environment."""
    return [str(path) for path in venv.glob("lib/python3.*/site-packages")]


def read_python(folders: Sequence[str]) -> Iterator[Package]:
    """Yield the Python packages in these package folders."""
    for found in distributions(path=list(folders)):
        name = re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
        yield Package("pypi", name, found.version, _find_license(found))


def read_system(release: str) -> str:
    """Return the name and number of a Debian-like release from its `os-release` file."""
    fields = dict(re.findall(r"^([A-Z_]+)=\"?([^\"\n]*)\"?$", release, re.MULTILINE))
    return f"{fields['ID']}-{fields['VERSION_ID']}"


def read_debian(status: str, system: str) -> Iterator[Package]:
    """Yield the packages that a dpkg status file lists as installed."""
    for block in status.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", block, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            yield Package(
                "deb",
                fields["Package"],
                fields["Version"],
                architecture=fields["Architecture"],
                system=system,
                # The field contains `name (version)`, or only the name if the version is the same.
                source=re.sub(r" \((.+)\)$", r"@\1", fields.get("Source", "")),
            )


def render(name: str, seconds: int, packages: Sequence[Package], purpose: str = "CONTAINER") -> str:
    """Render the SPDX document of an image or another subject; `seconds` counts from 1970."""
    image = {
        "SPDXID": "SPDXRef-Image",
        "name": f"strandline-{name}",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "primaryPackagePurpose": purpose,
    }
    listed = [_render_package(package) for package in sorted(set(packages))]
    body = [image, *listed]
    digest = hashlib.sha256(json.dumps(body).encode()).hexdigest()
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"strandline-{name}",
        "documentNamespace": f"urn:strandline:sbom:{name}:{digest}",
        "creationInfo": {
            "created": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: strandline-images"],
        },
        "packages": body,
        "relationships": [
            _relate("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Image"),
            *(_relate("SPDXRef-Image", "CONTAINS", entry["SPDXID"]) for entry in listed),
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def _render_package(package: Package) -> dict[str, Any]:
    return {
        "SPDXID": "SPDXRef-" + _format_id(package),
        "name": package.name,
        "versionInfo": package.version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseDeclared": package.license,
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": _format_url(package),
            }
        ],
    }


def _format_id(package: Package) -> str:
    words = f"{package.origin}-{package.name}-{package.architecture}".rstrip("-")
    return re.sub(r"[^A-Za-z0-9.-]", "-", words.replace("+", "plus"))


def _format_url(package: Package) -> str:
    version = quote(package.version, safe="")
    if package.origin == "deb":
        system = package.system.partition("-")[0] or "debian"
        words = {"arch": package.architecture, "distro": package.system, "upstream": package.source}
        tail = "&".join(f"{key}={quote(word, safe='')}" for key, word in words.items() if word)
        return f"pkg:deb/{system}/{quote(package.name, safe='')}@{version}?{tail}"
    return f"pkg:pypi/{package.name}@{version}"


def _relate(first: str, how: str, other: str) -> dict[str, str]:
    return {"spdxElementId": first, "relationshipType": how, "relatedSpdxElement": other}


def _find_license(found: Distribution) -> str:
    """Return the license expression of a package.

    Older metadata fields contain prose and are ignored.
    """
    stated = "".join(found.metadata.get_all("License-Expression") or [])
    return stated if LICENSE.fullmatch(stated) else "NOASSERTION"


if __name__ == "__main__":
    main(sys.argv[1:])
