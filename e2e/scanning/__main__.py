"""Fails if an image has a severe vulnerability with a fix: `python -m scanning`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from scanning.accepted import AcceptedVulnerability, read_accepted
from scanning.bills import read_bill
from scanning.errors import ScanError
from scanning.findings import Judgement, judge
from scanning.scanner import scan, try_scanner

ACCEPTED = Path(__file__).with_name("accepted.toml")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the requested command. On an error, print a sentence and return exit code 1."""
    parser = argparse.ArgumentParser(prog="scanning", description=__doc__, allow_abbrev=False)
    parser.add_argument("bills", nargs="*", type=Path, help="SPDX documents of images")
    parser.add_argument("--scanner", required=True, help="OSV-Scanner's program")
    text = "a folder with lists of vulnerabilities, instead of those of osv.dev"
    parser.add_argument("--database", type=Path, help=text)
    text = "which vulnerabilities may stay (default: e2e/scanning/accepted.toml)"
    parser.add_argument("--accepted", type=Path, default=ACCEPTED, help=text)
    given = parser.parse_args(arguments)
    try:
        accepted = read_accepted(given.accepted.read_text(encoding="utf-8"), _read_day())
        try_scanner(given.scanner)
        print("the scanner sees what is planted")
        judged = [_scan_bill(path, given, accepted) for path in given.bills]
    except (ScanError, OSError) as error:
        sys.exit(f"strandline: {error}")
    if any(judgement.severe for judgement in judged):
        sys.exit("strandline: an image has vulnerabilities that are severe and can be mended")


def _scan_bill(
    path: Path, given: argparse.Namespace, accepted: Sequence[AcceptedVulnerability]
) -> Judgement:
    parts = read_bill(path.read_text(encoding="utf-8"))
    judgement = judge(scan(given.scanner, parts, given.database), accepted)
    print(f"{path}: {len(parts)} parts")
    kinds = {
        "severe": judgement.severe,
        "accepted": judgement.accepted,
        "left": judgement.others,
    }
    for kind, findings in kinds.items():
        for finding in findings:
            print(f"  {kind}: {finding.describe()}")
    for entry in judgement.unused:
        print(f"  not found here, though it is accepted: {entry.id} in {entry.package}")
    return judgement


def _read_day() -> date:
    return datetime.now(UTC).date()


if __name__ == "__main__":
    main()
