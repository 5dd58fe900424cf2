"""The SPDX document of an image is complete, reproducible, and readable by scanners."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from images.inside.bill import Package, read_debian, read_python, read_system, render

STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u14
Description: GNU C Library
 Status: not a field

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: libstdc++6
Status: install ok installed
Source: gcc-12 (12.2.0-14)
Architecture: amd64
Version: 1:12.2.0-14
"""
RELEASE = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n'
WORDS = st.from_regex(r"[a-z0-9][a-z0-9.+_-]{0,8}", fullmatch=True)
PACKAGES = st.lists(st.builds(Package, st.sampled_from(["deb", "pypi"]), WORDS, WORDS))


def install(folder: Path, name: str, version: str, license: str = "") -> None:  # noqa: A002 - a field
    place = folder / f"{name}-{version}.dist-info"
    place.mkdir(parents=True)
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
    lines += [f"License-Expression: {license}"] if license else []
    (place / "METADATA").write_text("\n".join(lines) + "\n")


def test_debian_packages_are_the_installed_ones() -> None:
    assert list(read_debian(STATUS, "debian-12")) == [
        Package("deb", "libc6", "2.36-9+deb12u14", architecture="amd64", system="debian-12"),
        Package(
            "deb",
            "libstdc++6",
            "1:12.2.0-14",
            architecture="amd64",
            system="debian-12",
            source="gcc-12@12.2.0-14",
        ),
    ]


def test_the_release_comes_from_the_base() -> None:
    assert read_system(RELEASE) == "debian-12"
    assert read_system('VERSION_ID="24.04"\nID=ubuntu\n') == "ubuntu-24.04"


def test_python_packages_come_from_all_folders_by_their_plain_names(tmp_path: Path) -> None:
    install(tmp_path / "a", "Jinja2", "3.1.6")
    install(tmp_path / "b", "typing_extensions", "4.16.0", "PSF-2.0")

    found = set(read_python([str(tmp_path / "a"), str(tmp_path / "b")]))

    assert found == {
        Package("pypi", "jinja2", "3.1.6"),
        Package("pypi", "typing-extensions", "4.16.0", "PSF-2.0"),
    }


def test_a_license_in_prose_is_not_passed_on(tmp_path: Path) -> None:
    install(tmp_path, "odd", "1", "see: the file, please")

    assert [package.license for package in read_python([str(tmp_path)])] == ["NOASSERTION"]


def test_the_document_has_the_form_that_scanners_read(golden: Callable[[str, str], None]) -> None:
    packages = [
        Package("pypi", "kopf", "1.45.2", "MIT"),
        *read_debian(STATUS, read_system(RELEASE)),
    ]

    golden("images/sbom.spdx.json", render("operator", 1_700_000_000, packages))


@given(PACKAGES)
def test_every_package_is_listed_once_in_any_order(packages: list[Package]) -> None:
    text = render("runtime", 0, packages)

    document = json.loads(text)
    assert text == render("runtime", 0, [*reversed(packages), *packages])
    assert len(document["packages"]) == len(set(packages)) + 1
    assert len(document["relationships"]) == len(document["packages"])


@given(PACKAGES)
def test_ids_are_of_letters_digits_dots_and_dashes(packages: list[Package]) -> None:
    document = json.loads(render("runtime", 0, packages))

    ids = [package["SPDXID"] for package in document["packages"]]
    assert [name for name in ids if not re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name)] == []


def test_another_content_has_another_namespace() -> None:
    one, other = (render("runtime", 0, [Package("pypi", "a", version)]) for version in "12")

    assert json.loads(one)["documentNamespace"] != json.loads(other)["documentNamespace"]
