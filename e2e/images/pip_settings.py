"""Passes this machine's package index settings to the pip inside a build.

The settings are build secrets, so no layer keeps them. This module must not depend on the build
tool.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

# Settings for package sources and timeouts. A build gets no other user settings.
KEPT = frozenset(
    {
        "default-timeout",
        "extra-index-url",
        "find-links",
        "index-url",
        "no-index",
        "proxy",
        "retries",
        "timeout",
        "trusted-host",
    }
)
SETTING = re.compile(r"(?P<section>:env:|[^.\s]+)\.(?P<name>[a-z-]+)=(?P<value>.+)")
BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


def render_configuration(listing: str) -> str:
    """Render a `pip.conf` from the output of `pip config list`.

    Later settings override earlier ones, as in pip.
    """
    found = {name: value for name, value in _read(listing) if name in KEPT}
    lines = [line for name, value in sorted(found.items()) for line in _format_setting(name, value)]
    return "\n".join(["[global]", *lines]) + "\n"


def find_bundle(listing: str, environment: Mapping[str, str]) -> str | None:
    """Return the path of pip's custom certificate bundle, or None if pip uses its own."""
    named = [value for name, value in _read(listing) if name == "cert"]
    named = named[-1:] + [environment[name] for name in BUNDLES if environment.get(name)]
    return named[0] if named else None


def _read(listing: str) -> Iterator[tuple[str, str]]:
    """Return the settings in order. Settings from the environment come last and take precedence."""
    lines = [found for line in listing.splitlines() if (found := SETTING.fullmatch(line))]
    for found in sorted(lines, key=lambda line: line["section"] == ":env:"):
        value = ast.literal_eval(found["value"])
        if found["section"] in {":env:", "global", "install"}:
            yield found["name"], str(value)


def _format_setting(name: str, value: str) -> list[str]:
    words = value.split()
    if name == "find-links":
        # Keep only URLs, because folders of this machine do not exist inside the build.
        words = [word for word in words if re.match(r"https?://", word)]
    return (
        [f"{name} = {' '.join(words[:1])}", *(f"    {word}" for word in words[1:])] if words else []
    )
