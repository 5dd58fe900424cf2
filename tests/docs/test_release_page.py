"""The checks of docs/verifying.md accept the release workflow's signatures and reject forks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "verifying.md").read_text(encoding="utf-8")
WORKFLOW = (ROOT / ".github" / "workflows" / "release.yaml").read_text(encoding="utf-8")
RELEASE = "acme/strandline/.github/workflows/release.yaml@refs/tags/v1.2.3"


def find_pattern(option: str) -> str:
    (found,) = re.findall(rf"--{option} '([^']+)'", PAGE)
    return str(found).replace("OWNER", "acme").replace(r"X\.Y\.Z", r"1\.2\.3")


@pytest.mark.parametrize(
    ("identity", "is_ours"),
    [
        (RELEASE, True),
        (RELEASE.replace("acme/", "mallory/"), False),
        (RELEASE.replace("acme/", "not-acme/"), False),
        (RELEASE.replace("v1.2.3", "v1.2.4"), False),
        (RELEASE.replace("v1.2.3", "v1x2.3"), False),
        (RELEASE.replace("v1.2.3", "v1.2.3-rc1"), False),
        (RELEASE.replace("tags/v1.2.3", "heads/main"), False),
        (RELEASE.replace("release.yaml", "ci.yaml"), False),
        (RELEASE.replace("/strandline/", "/strandline-fork/"), False),
    ],
)
def test_the_identity_pattern_accepts_only_our_release_workflow(
    identity: str, is_ours: bool
) -> None:
    pattern = find_pattern("certificate-identity-regexp")
    assert bool(re.search(pattern, f"https://code.example.com/{identity}")) is is_ours


def test_the_page_verifies_every_signed_artifact() -> None:
    signed = re.findall(r'cosign sign --yes "\$(\w+)(\S*)@\$digest"', WORKFLOW)
    assert signed == [("image", ""), ("charts", "/strandline")]
    (targets,) = re.findall(r"for target in ([\w ]+); do\n +image=.+\n +docker buildx", WORKFLOW)
    assert f"for name in {targets} charts/strandline; do" in PAGE
    assert "attest-build-provenance" in WORKFLOW
    assert "gh attestation verify" in PAGE


def test_bills_of_materials_are_at_the_documented_path() -> None:
    inside = "/usr/share/strandline/sbom.spdx.json"
    assert inside in WORKFLOW
    assert inside in PAGE
    assert "--sbom true" in WORKFLOW
    assert "$version.spdx.json" in (ROOT / ".ci" / "release-dry").read_text(encoding="utf-8")
