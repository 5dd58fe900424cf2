"""Go programs that are built in sequence share compiled packages."""

from __future__ import annotations

import re

import pytest

from source_tree import ROOT

# Pairs of modules in build order. The second build reuses compiled packages of the first, above all
# Kubernetes' client. The versions must be equal, because a package is compiled again if any of its
# dependencies differs.
SHARED = [("helm", "dns")]


def read_versions(text: str) -> dict[str, str]:
    """Return the module versions that a `go.mod` requires."""
    return dict(re.findall(r"^(?:require )?\s*([\w.~-]+\.\w+/\S+) (v\S+)", text, re.MULTILINE))


def find_differences(first: str, second: str) -> list[str]:
    """Return the modules with different versions in two `go.mod` files."""
    versions, others = read_versions(first), read_versions(second)
    both = sorted(versions.keys() & others.keys())
    return [
        f"{name}: {versions[name]}, {others[name]}"
        for name in both
        if versions[name] != others[name]
    ]


@pytest.mark.parametrize(("first", "second"), SHARED)
def test_programs_with_shared_packages_require_the_same_versions(first: str, second: str) -> None:
    texts = [
        (ROOT / "e2e" / name / "go.mod").read_text(encoding="utf-8") for name in (first, second)
    ]
    assert "k8s.io/client-go" in read_versions(texts[0]).keys() & read_versions(texts[1]).keys()
    assert find_differences(*texts) == []


def test_a_different_version_is_found() -> None:
    first = "module a.dev/a\n\nrequire k8s.io/api v0.37.1\n"
    second = "module a.dev/b\n\nrequire (\n\tk8s.io/api v0.37.0 // indirect\n\tb.dev/b v1.0.0\n)\n"
    assert find_differences(first, first) == []
    assert find_differences(first, second) == ["k8s.io/api: v0.37.1, v0.37.0"]
