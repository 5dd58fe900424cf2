"""Settings of this machine's pip that reach a build: only the locations of packages."""

from __future__ import annotations

import configparser

import pytest

from images.pip_settings import find_bundle, render_configuration
from images.programs import hide_addresses

INDEX = "https://example.com/simple?password=word"


def read(listing: str) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    parser.read_string(render_configuration(listing))
    return dict(parser["global"])


def say(name: str, value: str, section: str = "global") -> str:
    return f"{section}.{name}={value!r}"


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        ("", {}),
        (say("index-url", INDEX), {"index-url": INDEX}),
        (say("trusted-host", "a b", "install"), {"trusted-host": "a\nb"}),
        (say("extra-index-url", "\nftp://a\nftp://b"), {"extra-index-url": "ftp://a\nftp://b"}),
        (say("find-links", f"/a/folder {INDEX}"), {"find-links": INDEX}),
        ("global.find-links='/a/folder'", {}),
        ("global.cert='/a/path'\nglobal.cache-dir='/b'\nglobal.user='true'", {}),
        ("freeze.timeout='10'", {}),
        ("not a setting", {}),
    ],
)
def test_settings_for_package_locations_are_included(
    listing: str, expected: dict[str, str]
) -> None:
    assert read(listing) == expected


def test_the_environment_overrides_files() -> None:
    mine, theirs = say("index-url", "ftp://mine", ":env:"), say("index-url", "ftp://theirs")

    assert read(f"{mine}\n{theirs}") == {"index-url": "ftp://mine"}


@pytest.mark.parametrize(
    ("listing", "environment", "expected"),
    [
        ("", {}, None),
        ("", {"SSL_CERT_FILE": "/s"}, "/s"),
        ("", {"SSL_CERT_FILE": "/s", "REQUESTS_CA_BUNDLE": "/r"}, "/r"),
        ("global.cert='/g'", {"SSL_CERT_FILE": "/s"}, "/g"),
        (":env:.cert='/e'\nglobal.cert='/g'", {}, "/e"),
        ("", {"SSL_CERT_FILE": ""}, None),
    ],
)
def test_certificates_are_the_ones_pip_trusts(
    listing: str, environment: dict[str, str], expected: str | None
) -> None:
    assert find_bundle(listing, environment) == expected


def test_a_shown_failure_has_no_address_and_no_password() -> None:
    said = f"Looking in indexes: {INDEX}, then HTTPSConnectionPool(host='example.com', port=443)"

    shown = hide_addresses(said)

    assert "example.com" not in shown
    assert "word" not in shown
    assert shown.startswith("Looking in indexes: <address>")
