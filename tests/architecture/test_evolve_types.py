"""The API and the operator change models only through calls that mypy can check."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from source_tree import ROOT, Module, list_modules

# Modules that define `evolve` and the methods that it calls.
OWN = {"crds/strandline_api/api_model.py", "crds/strandline_api/status/records.py"}
PLANTED = """
from typing import TypeVar
from strandline_api.api_model import evolve
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.status.pipeline_status import PipelineStatus, Progress

Status = TypeVar("Status", bound=PipelineStatus)

def change(status: Status, attempt: AttemptStatus, progress: Progress | None) -> Status:
    evolve(attempt, message="well", end_time=1.0, progress=progress)
    evolve(status, stat="a wrong name")
    evolve(attempt, end_time="a wrong type")
    evolve(attempt, **{"message": 1})
    evolve(progress, time=1.0)
    return evolve(status, state="well")
"""


def find_unchecked(module: Module) -> Iterator[str]:
    """Yield calls that mypy can't check, because a dictionary of changes may contain any names."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            keywords = [keyword.arg for keyword in node.keywords]
            if (name == "model_copy" and "update" in keywords) or (
                name == "evolve" and None in keywords
            ):
                yield f"{module.path}:{node.lineno}"


def test_mypy_finds_a_wrong_name_and_a_wrong_type(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(PLANTED)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", str(planted)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert errors == {11, 12, 13, 14}, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("evolve(status, state='')", []),
        ("evolve(status, **changes)", ["a.py:1"]),
        ("status.model_copy(update={'state': ''})", ["a.py:1"]),
        ("status.model_copy(deep=True)", []),
    ],
)
def test_a_change_that_mypy_cannot_check_is_found(text: str, expected: list[str]) -> None:
    assert list(find_unchecked(Module("a.py", text, ast.parse(text)))) == expected


def test_every_change_is_checked() -> None:
    modules = [module for module in list_modules("crds", "operator") if module.path not in OWN]
    assert len(modules) > 150
    assert [place for module in modules for place in find_unchecked(module)] == []
