"""A missing reader program is reported clearly, and fails `make gitops`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from readings import ADVICE, PLACE, ROOT, NoReaderError, Reader, find_cached, find_program

ONE_TEST = "tests/gitops/test_health_scripts.py::test_without_the_scripts_there_is_no_health"
NEEDS = "STRANDLINE_NEEDS_GITOPS"


def test_the_tests_find_the_program_built_by_make(reader: Reader) -> None:
    assert reader.program == find_cached()


def test_a_missing_program_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(PLACE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NoReaderError, match="make gitops"):
        find_program()


@pytest.mark.parametrize(("needs", "code"), [({}, 0), ({NEEDS: "1"}, 1)], ids=["plain", "make"])
def test_a_missing_program_is_one_loud_line_or_a_failure(needs: dict[str, str], code: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != NEEDS}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", ONE_TEST],
        cwd=ROOT,
        env={**environment, PLACE: "/nowhere", "COLUMNS": "400", **needs},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert ADVICE in done.stdout


def test_an_invalid_request_gets_a_sentence(reader: Reader, tmp_path: Path) -> None:
    no_settings = [reader.program, tmp_path / "none.yaml"]
    for command in ([reader.program], no_settings, [reader.program, reader.settings]):
        done = subprocess.run(command, input="{", capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith(("strandline-gitops: ", "usage"))
        assert done.stderr.count("\n") == 1
