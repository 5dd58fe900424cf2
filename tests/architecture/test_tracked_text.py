"""No tracked file contains a path of a developer's machine or the address of a package index."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import distributions
from ipaddress import ip_address

import pytest
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from source_tree import ROOT, list_files

# Home and work folders of machines. Standard paths of containers and systems are allowed.
MACHINE = re.compile(r"(?<![\w.{}>/-])/(?:home|root|work|Users)/\w+")
INDEX = re.compile(r"--(?:extra-)?index-url|--find-links|--trusted-host|\bindex-url\s*=")
ADDRESS = re.compile(r"https?://([A-Za-z0-9.-]+)")
KNOWN_HOSTS = {
    "www.w3.org",
    "www.apache.org",
    "example.com",
    "docs.astral.sh",
    "kubernetes.io",
    "localhost",
    "www.ray.io",
}
# Files with sample texts, sample paths, or recorded pod addresses.
EXEMPT = (
    "pipelines/examples/documents",
    "tests/architecture/",
    "tests/fixtures/kuberay/",
    "tests/golden/scenarios/",
    "tests/packs/",
    "tests/storage/",
)
PINS = re.compile(r"(#.*|[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+)")


# A separate constant, so that this file does not match its own pattern.
SLASH = "/"
WORK = f"{SLASH}work{SLASH}"


def is_foreign(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_global
    return not any(host == known or host.endswith(f".{known}") for known in KNOWN_HOSTS)


def find_traces(text: str) -> Iterator[str]:
    for pattern in (MACHINE, INDEX):
        yield from (found.group() for found in pattern.finditer(text))
    yield from (found.group() for found in ADDRESS.finditer(text) if is_foreign(found.group(1)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cd /home/somebody/project", ["/home/somebody"]),
        (f"path: {WORK}main", [f"{WORK}main"]),
        ("pip install --index-url x", ["--index-url"]),
        ("see https://packages.invalid/simple", ["https://packages.invalid"]),
        ("see http://www.apache.org/licenses/", []),
        ("ask http://127.0.0.1:8080/ and http://10.0.0.7/", []),
        ("ask http://8.8.8.8/", ["http://8.8.8.8"]),
        (f"memory://{WORK}out and a{WORK}b", []),
    ],
)
def test_traces_are_found(text: str, expected: list[str]) -> None:
    assert list(find_traces(text)) == expected


def test_no_tracked_file_has_a_trace() -> None:
    found = []
    for path in list_files():
        if path.as_posix().startswith(EXEMPT):
            continue
        text = (ROOT / path).read_bytes().decode(errors="replace")
        found += [
            f"{path}:{number}: {trace}: write a name that holds everywhere, such as example.com"
            for number, line in enumerate(text.splitlines(), 1)
            for trace in find_traces(line)
        ]
    assert found == [], "\n".join(found)


def test_constraints_are_versions_and_nothing_else() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not PINS.fullmatch(line)] == []
    assert len(lines) > 20


def test_pinned_packages_install_on_the_oldest_python() -> None:
    """A checkout installs on an early release of Python 3.11, which Debian 12 has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = f"{project['requires-python'].removeprefix('>=')}.0"
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}
    refused = [
        f"{found.name} {found.version}: {found.metadata['Requires-Python']}"
        for found in distributions()
        if canonicalize_name(found.name) in pinned
        and "Requires-Python" in found.metadata
        and oldest not in SpecifierSet(found.metadata["Requires-Python"])
    ]
    assert refused == []
