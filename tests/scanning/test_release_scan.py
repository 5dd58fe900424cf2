"""No image with a severe, fixable vulnerability is released without a documented reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from scanning.__main__ import ACCEPTED, main
from scanning.accepted import LONGEST, AcceptedVulnerability, read_accepted
from scanning.bills import Part, read_bill, render_parts
from scanning.errors import ScanError
from scanning.findings import Finding, judge, read_findings
from source_tree import ROOT

BILL = ROOT / "tests" / "golden" / "images" / "sbom.spdx.json"
# Output of OSV-Scanner 2.2.4 for our own lists; see the names of the vulnerabilities.
ANSWER = Path(__file__).with_name("scanner_answer.json").read_text(encoding="utf-8")
TODAY = date(2026, 11, 25)
REASON = "The code with the vulnerability is never called by us."
ENTRY = {"id": '"CVE-1"', "package": '"glibc"', "reason": f'"{REASON}"', "until": "2026-12-31"}


def write_entry(**changes: str | None) -> str:
    fields = {**ENTRY, **changes}
    lines = [f"{key} = {value}" for key, value in fields.items() if value is not None]
    return "\n".join(["[[accepted]]", *lines]) + "\n"


# --- The scanner's input


def test_packages_have_the_names_of_the_vulnerability_lists() -> None:
    parts = read_bill(BILL.read_text(encoding="utf-8"))
    assert parts == (
        Part("Debian:12", "gcc-12", "12.2.0-14"),
        Part("Debian:12", "libc6", "2.36-9+deb12u14"),
        Part("PyPI", "kopf", "1.45.2"),
    )
    listed = json.loads(render_parts(parts))["results"][0]["packages"]
    assert listed[2] == {"package": {"ecosystem": "PyPI", "name": "kopf", "version": "1.45.2"}}


@pytest.mark.parametrize(
    ("packages", "why"),
    [
        ([], "lists no parts"),
        ([{"name": "a"}], "does not say where a comes from"),
        ([{"name": "a", "purl": "pkg:deb/debian/a@1?arch=amd64"}], "no list of vulnerabilities"),
        (
            [{"name": "a", "purl": "pkg:deb/ubuntu/a@1?distro=ubuntu-24.04"}],
            "no list of vulnerabilities",
        ),
        ([{"name": "a", "purl": "pkg:npm/a@1"}], "no list of vulnerabilities"),
    ],
)
def test_an_unidentifiable_package_is_rejected(packages: list[dict[str, str]], why: str) -> None:
    bill: list[dict[str, Any]] = [{"name": "image", "primaryPackagePurpose": "CONTAINER"}]
    for package in packages:
        purl = package.get("purl")
        reference = {"referenceType": "purl", "referenceLocator": purl}
        bill.append({"name": package["name"], "externalRefs": [reference] if purl else []})
    with pytest.raises(ScanError, match=why):
        read_bill(json.dumps({"packages": bill}))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"packages": 7}'])
def test_an_invalid_bill_is_rejected(text: str) -> None:
    with pytest.raises(ScanError, match="no bill"):
        read_bill(text)


# --- Accepted vulnerabilities


def test_an_entry_holds_up_to_its_day() -> None:
    accepted = AcceptedVulnerability("CVE-1", "glibc", REASON, date(2026, 12, 31))
    assert read_accepted(write_entry(), TODAY) == (accepted,)
    assert read_accepted(write_entry(), date(2026, 12, 31)) == (accepted,)
    with pytest.raises(ScanError, match="accepted until 2026-12-31"):
        read_accepted(write_entry(), date(2027, 1, 1))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"reason": None}, "it has to have"),
        ({"until": None}, "it has to have"),
        ({"more": "1"}, "it has to have"),
        ({"reason": '" "'}, "are texts"),
        ({"reason": '"harmless"'}, "is a sentence"),
        ({"until": '"2026-12-31"'}, "is a day"),
        ({"until": "2026-12-31T00:00:00Z"}, "is a day"),
        ({"until": str(TODAY + LONGEST + timedelta(days=1))}, "too far away"),
        ({"id": "7"}, "are texts"),
    ],
)
def test_an_entry_without_a_reason_or_an_end_is_refused(
    changes: dict[str, str | None], why: str
) -> None:
    with pytest.raises(ScanError, match=why):
        read_accepted(write_entry(**changes), TODAY)


@pytest.mark.parametrize("text", ["accepted = 7", "accepted = [7]", "[["])
def test_an_invalid_list_of_entries_is_rejected(text: str) -> None:
    with pytest.raises(ScanError):
        read_accepted(text, TODAY)


def test_a_duplicate_entry_is_rejected() -> None:
    with pytest.raises(ScanError, match="CVE-1 in glibc: it is there twice"):
        read_accepted(write_entry() + write_entry(), TODAY)


def test_the_checked_in_entries_are_valid_today() -> None:
    read_accepted(ACCEPTED.read_text(encoding="utf-8"), datetime.now(UTC).date())


# --- Consequences


def test_only_severe_fixable_findings_block() -> None:
    judgement = judge(read_findings(ANSWER), ())
    assert [each.ids[0] for each in judgement.severe] == ["HIGH-MENDED", "UNRATED-MENDED"]
    assert [each.ids[0] for each in judgement.others] == [
        "CRITICAL-MENDED-ELSEWHERE",
        "CRITICAL-OPEN",
        "LOW-MENDED",
    ]
    assert judgement.severe[0] == Finding(
        "glibc", "2.36-9", ("HIGH-MENDED", "CVE-1"), 7.5, is_fixed=True
    )


@pytest.mark.parametrize(
    ("id", "package", "is_accepted"),
    [("CVE-1", "glibc", True), ("HIGH-MENDED", "glibc", True), ("CVE-1", "kopf", False)],
)
def test_a_vulnerability_is_accepted_by_any_of_its_ids_for_its_package(
    id: str,  # noqa: A002 - the file's own word
    package: str,
    *,
    is_accepted: bool,
) -> None:
    entry = AcceptedVulnerability(id, package, REASON, TODAY)
    judgement = judge(read_findings(ANSWER), (entry,))
    assert [each.ids[0] for each in judgement.accepted] == ["HIGH-MENDED"] * is_accepted
    assert judgement.unused == (() if is_accepted else (entry,))


@pytest.mark.parametrize("text", ["", "{}", '{"results": [{"packages": [{}]}]}'])
def test_an_unreadable_answer_is_an_error(text: str) -> None:
    with pytest.raises(ScanError, match="can't be read"):
        read_findings(text)


# --- The whole command, with a fake scanner

PLANTED = {
    "results": [
        {
            "packages": [
                {
                    "package": {"name": name, "version": version, "ecosystem": ecosystem},
                    "vulnerabilities": [
                        {
                            "id": "PLANTED",
                            "affected": [
                                {
                                    "package": {"name": name, "ecosystem": ecosystem},
                                    "ranges": [{"events": [{"fixed": "1.0-2"}]}],
                                }
                            ],
                        }
                    ],
                    "groups": [{"ids": ["PLANTED"], "max_severity": ""}],
                }
                for ecosystem, name, version in [
                    ("PyPI", "strandline-planted", "1.0"),
                    ("Debian:12", "planted", "1.0-1+deb12u1"),
                ]
            ]
        }
    ]
}
NOTHING = '{"results": []}'
Play = Callable[..., str]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Create a fake scanner with this output, which finds planted vulnerabilities or not."""

    def make(answer: str, *, code: int = 1, planted: str = json.dumps(PLANTED)) -> str:
        (tmp_path / "answer.json").write_text(answer)
        (tmp_path / "planted.json").write_text(planted)
        program = tmp_path / "scanner"
        program.write_text(
            f"#!/bin/sh\ncd {tmp_path}\n"
            'case "$*" in *--offline*) cat planted.json; exit 1;; esac\n'
            f"cat answer.json; echo 'no such host' >&2; exit {code}\n"
        )
        program.chmod(0o755)
        return str(program)

    return make


def run(scanner: str, accepted: Path = ACCEPTED) -> str | int | None:
    """Return the exit code or the last message, or None for success."""
    try:
        main(["--scanner", scanner, "--accepted", str(accepted), str(BILL)])
    except SystemExit as end:
        return end.code
    return None


def test_an_image_without_vulnerabilities_passes(play: Play) -> None:
    assert run(play(NOTHING, code=0)) is None


def test_a_severe_vulnerability_fails_the_release(
    play: Play, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "has vulnerabilities that are severe" in str(run(play(ANSWER)))
    told = capsys.readouterr().out
    assert "severe: glibc 2.36-9: HIGH-MENDED, CVE-1 (CVSS 7.5, mended in a later version)" in told
    assert "left: kopf 1.45.2: CRITICAL-OPEN (CVSS 9.8, not mended yet)" in told


def test_an_accepted_vulnerability_passes_until_its_day(play: Play, tmp_path: Path) -> None:
    accepted, today = tmp_path / "accepted.toml", datetime.now(UTC).date()
    vulnerabilities = {"CVE-1": "glibc", "UNRATED-MENDED": "kopf"}

    def accept(until: date) -> None:
        entries = [
            write_entry(id=f'"{name}"', package=f'"{package}"', until=str(until))
            for name, package in vulnerabilities.items()
        ]
        accepted.write_text("".join(entries))

    accept(today + timedelta(days=1))
    assert run(play(ANSWER), accepted) is None
    accept(today - timedelta(days=1))
    assert "was accepted until" in str(run(play(ANSWER), accepted))


@pytest.mark.parametrize("planted", [NOTHING, ANSWER])
def test_a_scanner_that_sees_nothing_is_not_believed(play: Play, planted: str) -> None:
    found = run(play(NOTHING, code=0, planted=planted))
    assert "does not see what is planted" in str(found)


def test_a_failed_scan_fails_the_release(play: Play) -> None:
    assert "could not look (127): no such host" in str(run(play(NOTHING, code=127)))
    assert "could not be run" in str(run("/no/such/scanner"))


def test_nothing_is_published_or_signed_before_it_is_scanned() -> None:
    path = ROOT / ".github" / "workflows" / "release.yaml"
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    scans = [step.get("run", "") for step in jobs["scan"]["steps"]]
    assert any("make scan" in text for text in scans)
    assert not any("continue-on-error" in step for step in jobs["scan"]["steps"])
    assert (jobs["scan"]["needs"], jobs["index"]["needs"]) == ("images", "scan")
    assert set(jobs["pypi"]["needs"]) == {"build", "index"}
    signs = [name for name, job in jobs.items() if "cosign sign" in str(job)]
    assert signs == ["index"]
