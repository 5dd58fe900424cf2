"""Runs the scanner on packages, and tests the scanner with planted vulnerabilities."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from scanning.bills import Part, render_parts
from scanning.errors import ScanError
from scanning.findings import Finding, read_findings

# Exit codes of a scan: 0 for no findings, 1 for findings. All others are errors.
_ANSWERS = frozenset({0, 1})
_LONGEST = 900.0
_FOLDER = "OSV_SCANNER_LOCAL_DB_CACHE_DIRECTORY"
_PLANTED = Part("PyPI", "strandline-planted", "1.0"), Part("Debian:12", "planted", "1.0-1+deb12u1")
_SOUND = Part("PyPI", "strandline-planted", "2.0"), Part("Debian:13", "planted", "1.0-1+deb12u1")


def scan(
    program: str, parts: tuple[Part, ...], database: Path | None = None
) -> tuple[Finding, ...]:
    """Return the known vulnerabilities of packages.

    Args:
        database: folder with vulnerability lists, or None to query osv.dev.

    Raises:
        ScanError: if the scanner failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "parts.json"
        listed.write_text(render_parts(parts), encoding="utf-8")
        command = [program, "scan", "source", "--format", "json", "--verbosity", "error"]
        command += ["--lockfile", f"osv-scanner:{listed}"]
        command += ["--offline"] if database else []
        settings = {_FOLDER: str(database)} if database else {}
        # Pass an empty configuration, so that no file of the machine can exclude packages from the
        # scan.
        command += ["--config", _write_empty(Path(folder) / "config.toml")]
        return read_findings(_call(command, settings))


def try_scanner(program: str) -> None:
    """Check that a scanner finds a planted vulnerability and nothing else.

    Raises:
        ScanError: if the check fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder)
        for part in _PLANTED:
            _plant(database, part)
        found = scan(program, (*_PLANTED, *_SOUND), database)
    seen = sorted((each.package, each.version, each.is_severe) for each in found)
    wanted = sorted((part.name, part.version, True) for part in _PLANTED)
    if seen != wanted:
        msg = f"the scanner does not see what is planted: {seen} instead of {wanted}"
        raise ScanError(msg)


def _call(command: Sequence[str], settings: dict[str, str]) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LONGEST,
            env={**os.environ, **settings},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        msg = f"the scanner could not be run: {error}"
        raise ScanError(msg) from error
    if done.returncode not in _ANSWERS:
        lines = done.stderr.strip().splitlines() or ["nothing"]
        msg = f"the scanner could not look ({done.returncode}): {lines[-1]}"
        raise ScanError(msg)
    return done.stdout


def _write_empty(path: Path) -> str:
    path.write_text("", encoding="utf-8")
    return str(path)


def _plant(database: Path, part: Part) -> None:
    """Add a vulnerability of a package to a database. A later version has the fix."""
    system = part.ecosystem.partition(":")[0]
    vulnerability = {
        "id": f"PLANTED-{system}",
        "schema_version": "1.6.0",
        "modified": "2026-01-01T00:00:00Z",
        "affected": [
            {
                "package": {"ecosystem": part.ecosystem, "name": part.name},
                "ranges": [
                    {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.0-2"}]}
                ],
            }
        ],
    }
    path = database / "osv-scanner" / system / "all.zip"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{vulnerability['id']}.json", json.dumps(vulnerability))
