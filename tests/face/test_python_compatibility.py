"""Code that uses the public names keeps working: what vanishes or gets narrower is named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from public_names import MODULES, read_name, read_names
from python_compatibility import find_breaks, flatten, format_snapshot
from strandline import SinkStage, Task
from strandline.errors import LedgerError

ROOT = Path(__file__).parents[2]
SNAPSHOT = "api/python.json"
IMPORT = re.compile(
    r"^\s*(?:from (strandline[\w.]*) import|import (strandline[\w.]*))", re.MULTILINE
)

Change = Callable[[dict[str, Any]], object]


class Sample(SinkStage):
    """Takes part in every rule."""

    class Params(SinkStage.Params):
        """Some."""

        width: int = 3

    suffix: str = ".txt"

    def __init__(self, first: int, second: str | None = None, *, third: Any = 0) -> None:
        raise NotImplementedError

    def tell(self) -> int | None:
        """Give something."""

    def write(self, task: Task, file: Any) -> None:
        raise NotImplementedError


SAMPLE = flatten(read_name("Sample", Sample))


def test_public_names_change_on_purpose_alone(
    request: pytest.FixtureRequest, golden: Callable[[str, str], None]
) -> None:
    now = flatten(read_names())
    if not request.config.getoption("--update-golden"):
        before = json.loads((ROOT / "tests/golden" / SNAPSHOT).read_text(encoding="utf-8"))
        breaks = find_breaks(before, now)
        advice = "docs/python.md says how a name may go; if nobody can rely on it: --update-golden"
        assert breaks == [], "\n".join(["this breaks code that imports us:", *breaks, advice])
    # What is left are additions: compatible, and shown in the diff of the golden file.
    golden(SNAPSHOT, format_snapshot(now))


def test_documents_and_examples_import_public_modules_alone() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    pages += (ROOT / "docs/journeys").glob("*.md")
    pages += [*(ROOT / "pipelines" / "examples").rglob("*.py")]
    found = [
        (page.name, first or second)
        for page in pages
        for first, second in IMPORT.findall(page.read_text(encoding="utf-8"))
    ]
    assert len(found) > 10
    assert [one for one in found if one[1] not in MODULES] == []


def test_what_code_relies_on_is_read() -> None:
    assert {path.removeprefix("Sample"): entry for path, entry in SAMPLE.items()} == {
        "": {"kind": "class", "is": ["SinkStage", "Stage"]},
        "(first)": {"kind": "parameter", "takes": ["int"], "at": 0},
        "(second)": {"kind": "parameter", "takes": ["str", "None"], "at": 1, "default": "None"},
        "(third)": {"kind": "parameter", "takes": ["Any"], "default": "0"},
        "(width)": {"kind": "parameter", "takes": ["int"], "default": "3"},
        ".tell": {"kind": "method", "gives": ["int", "None"]},
    }
    error = flatten(read_name("LedgerError", LedgerError))
    assert error["LedgerError.exit_code"]["gives"] == ["65"]
    assert "StrandlineError" in error["LedgerError"]["is"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s.pop("Sample.tell"), "tell is gone"),
        (lambda s: s.pop("Sample(third)"), "(third) is gone"),
        (lambda s: s["Sample"].update({"is": ["Stage"]}), "is no SinkStage any more"),
        (lambda s: s["Sample.tell"].update(kind="property"), "another kind of thing: property"),
        (lambda s: s["Sample.tell"].update(gives=["str", "int"]), "may be str now"),
        (lambda s: s["Sample.tell"].update(abstract=True), "has to be written by subclasses"),
        (lambda s: s["Sample(first)"].update(takes=["bool"]), "no longer takes int"),
        (lambda s: s["Sample(first)"].pop("at"), "at another place: None, not 0"),
        (lambda s: s["Sample(second)"].pop("default"), "has no default any more"),
        (lambda s: s["Sample(third)"].update(default="1"), "another default: 1, not 0"),
        (lambda s: s["Sample(width)"].update(minimum=2), "a narrower minimum: 2, not None"),
        (lambda s: s["Sample(width)"].update(pattern="a"), "another pattern: a"),
        (
            lambda s: s.update({"Sample(new)": {"kind": "parameter", "takes": ["int"]}}),
            "(new) is new and required",
        ),
        (
            lambda s: s.update({"Sample.new": {"kind": "method", "abstract": True}}),
            "subclasses have to write it",
        ),
    ],
)
def test_a_change_that_breaks_code_is_named(change: Change, said: str) -> None:
    changed = deepcopy(SAMPLE)
    change(changed)
    (found,) = find_breaks(SAMPLE, changed)
    assert said in found


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update({"Sample.new": {"kind": "method", "gives": ["int"]}}),
        lambda s: s.update({"Sample(new)": {"kind": "parameter", "default": "1"}}),
        lambda s: s.update({"Sample(**rest)": {"kind": "parameter", "takes": ["Any"]}}),
        lambda s: s.update({"New": {"kind": "class", "is": []}, "New(a)": {"kind": "parameter"}}),
        lambda s: s["Sample"]["is"].append("Sized"),
        lambda s: s["Sample.tell"].update(gives=["int"]),
        lambda s: s["Sample(first)"].update(takes=["int", "str"]),
        lambda s: s["Sample(first)"].update(takes=["Any"]),
        lambda s: s["Sample(first)"].update(default="1"),
        lambda s: s["Sample(third)"].update(at=2),
    ],
)
def test_what_takes_more_than_before_breaks_no_code(change: Change) -> None:
    changed = deepcopy(SAMPLE)
    change(changed)
    assert find_breaks(SAMPLE, changed) == []


def test_what_goes_with_its_owner_is_not_named_again() -> None:
    assert find_breaks(SAMPLE, {}) == ["Sample is gone"]


def test_the_snapshot_is_read_as_it_is_written() -> None:
    assert json.loads(format_snapshot(SAMPLE)) == SAMPLE
    assert format_snapshot(SAMPLE).count("\n") == len(SAMPLE) + 2
