"""Read-only commands need no write access: each command works on a read-only mount."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_project import Call, Project, read_errors
from mounts import mounted_read_only

LOOKS = [
    "report pipeline.yaml --out report.html",
    "failures pipeline.yaml",
    "attempts pipeline.yaml",
    "attempts show pipeline.yaml 1",
    "verify pipeline.yaml",
    "ledger sources pipeline.yaml",
    "ledger stats pipeline.yaml",
    "ledger export pipeline.yaml --to ledger.parquet",
    "ledger quarantine list pipeline.yaml",
    "top pipeline.yaml --once",
    "latest pipeline.yaml",
    "plan pipeline.yaml",
    "card pipeline.yaml --license mit --out card.md",
    "dropped pipeline.yaml",
    "repair pipeline.yaml --dry-run",
]
TELLS_WHEN = {"failures", "verify", "ledger", "report", "card"}


@pytest.fixture
def snapshot(project: Project, run: Call) -> Iterator[Path]:
    """Yield a read-only mount of the volume after a run."""
    assert run().exit_code == 0
    with mounted_read_only(project.path / "snapshot", project.path / "strandline-data") as mounted:
        yield mounted


@pytest.mark.parametrize("command", LOOKS)
def test_each_view_works_and_shows_its_time(snapshot: Path, command: str, call: Call) -> None:
    words = [*command.split(), "--volume", str(snapshot)]

    result = call(*words)

    assert result.exit_code == 0, result.output
    if command.split(maxsplit=1)[0] in TELLS_WHEN:
        told = r"as of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: the volume is read-only"
        assert re.search(told, result.stderr)


def test_writing_commands_report_the_read_only_volume(snapshot: Path, call: Call) -> None:
    for command in ("run", "repair"):
        result = call(command, "pipeline.yaml", "--volume", str(snapshot))
        assert result.exit_code == 73, command
        assert "read-only" in read_errors(result).lower()
