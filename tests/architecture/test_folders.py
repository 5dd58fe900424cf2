"""The folder `operator` is never importable, or it would shadow the standard library's."""

from __future__ import annotations

import operator
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from source_tree import ROOT, list_files

PRODUCT = ("crds", "operator", "pipelines")


def is_package(path: Path) -> bool:
    return len(path.parts) == 2 and path.name == "__init__.py"


def is_stray_test(path: Path) -> bool:
    is_test = path.name == "conftest.py" or path.match("test_*.py") or path.match("*_test.py")
    return is_test and path.parts[0] in PRODUCT


@pytest.mark.parametrize(
    ("name", "package", "stray"),
    [
        ("operator/__init__.py", True, False),
        ("crds/strandline_api/__init__.py", False, False),
        ("operator/strandline_operator/test_names.py", False, True),
        ("pipelines/conftest.py", False, True),
        ("tests/cli/test_run.py", False, False),
    ],
)
def test_a_planted_file_is_found(name: str, *, package: bool, stray: bool) -> None:
    assert (is_package(Path(name)), is_stray_test(Path(name))) == (package, stray)


def test_no_top_level_folder_is_a_package() -> None:
    assert [path for path in list_files() if is_package(path)] == []


def test_no_test_is_in_a_product_folder() -> None:
    assert [path for path in list_files() if is_stray_test(path)] == []


def test_operator_is_the_standard_librarys_module() -> None:
    assert Path(operator.__file__).parent == Path(sysconfig.get_path("stdlib"))


@pytest.mark.parametrize("arguments", [("-c",), ("-m", "timeit", "-n1")], ids=["-c", "-m"])
def test_operator_is_the_standard_librarys_in_a_process_started_at_the_root(
    arguments: tuple[str, ...],
) -> None:
    code = "import operator; print(operator.__file__)"
    command = [sys.executable, *arguments, code]

    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    assert Path(answer.splitlines()[0]).parent == Path(sysconfig.get_path("stdlib"))
