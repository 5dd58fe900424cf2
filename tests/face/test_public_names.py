"""Public names change only on purpose: a golden file has the signature of each."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

import griffe
import pytest

from public_names import MODULES, ROOT, list_signatures, render_signatures
from strandline import errors

IMPORT = re.compile(
    r"^\s*(?:from (strandline[\w.]*) import|import (strandline[\w.]*))", re.MULTILINE
)
SAMPLE = """\
from abc import abstractmethod
from strandline import Stage, SinkStage

class Sample(SinkStage):
    suffix: str = ".txt"

    def __init__(self, first: int, second: str | None = None) -> None: ...

    def measure(self) -> int: ...

    def _hidden(self) -> int: ...

    @abstractmethod
    def write(self, task: Task) -> None: ...
"""
STAGE = """\
class Sample(Stage):
    class Params(Stage.Params):
        width: int = Field(default=3, ge=1)
        _digest: str = ""
"""


def read(code: str, path: str = "strandline") -> list[str]:
    with griffe.temporary_visited_module(code) as module:
        return list(render_signatures(f"{path}.Sample", module["Sample"]))


def test_public_names_change_on_purpose_only(golden: Callable[[str, str], None]) -> None:
    """A failure lists the changed lines; docs/python.md describes how to remove a name."""
    golden("api/python.txt", "\n".join(list_signatures()) + "\n")


@pytest.mark.parametrize("name", ["EngineMissingError", "WindowLostError"])
def test_code_that_catches_a_removed_error_works_with_a_warning(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{name} is never raised"):
        removed = getattr(errors, name)
    assert issubclass(removed, errors.StrandlineError)
    with pytest.raises(errors.LedgerError), suppress(removed):
        raise errors.LedgerError


def test_signatures_contain_everything_that_callers_rely_on() -> None:
    assert read(SAMPLE) == [
        "strandline.Sample: SinkStage",
        "strandline.Sample.suffix: str = '.txt'",
        "strandline.Sample.__init__ = __init__(first: int, second: str | None = None) -> None",
        "strandline.Sample.measure = measure() -> int",
        "strandline.Sample.write = abstract write(task: Task) -> None",
    ]
    assert read(STAGE, "strandline.stages") == [
        "strandline.stages.Sample: Stage(width: int = Field(default=3, ge=1))"
    ]


@pytest.mark.parametrize(
    ("code", "before", "after"),
    [
        (SAMPLE, "Sample(SinkStage)", "Sample(Stage)"),
        (SAMPLE, "measure(", "_measure("),
        (SAMPLE, "first: int", "first: bool"),
        (SAMPLE, " = None", ""),
        (SAMPLE, "    @abstractmethod\n", ""),
        (SAMPLE, "measure(self) -> int", "measure(self) -> str"),
        (SAMPLE, "    suffix: str", "    _suffix: str"),
        (STAGE, "width", "length"),
        (STAGE, "default=3, ", ""),
        (STAGE, "ge=1", "ge=2"),
    ],
)
def test_a_change_to_a_name_changes_the_signatures(code: str, before: str, after: str) -> None:
    path = "strandline.stages" if code is STAGE else "strandline"
    assert before in code
    assert read(code.replace(before, after), path) != read(code, path)


def test_documents_and_examples_import_only_public_modules() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    # A contributor works on the packages themselves.
    pages += {*(ROOT / "docs/journeys").glob("*.md")} - {ROOT / "docs/journeys/contributor.md"}
    pages += [*(ROOT / "pipelines" / "examples").rglob("*.py")]
    found = [
        (page.name, first or second)
        for page in pages
        for first, second in IMPORT.findall(page.read_text(encoding="utf-8"))
    ]
    assert len(found) > 10
    assert [each for each in found if each[1] not in MODULES] == []
