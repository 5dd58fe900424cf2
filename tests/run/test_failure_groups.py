"""Failures of one kind form a group, and all failures count, however many kinds exist."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strandline
from strandline.engine.call.raised_errors import explain_error
from strandline.ledger.records.entries import FailureRecord
from strandline.run.attempt.failures import FailureGroups, find_reason


def failure(key: str, message: str, stage: str = "read") -> FailureRecord:
    return FailureRecord(key, 1, stage, message, 1)


def test_errors_of_stages_have_type_and_location() -> None:
    with pytest.raises(ValueError, match="invalid literal") as caught:
        int("no (number): 5")
    reason = find_reason(explain_error(caught.value))
    assert reason.error == "ValueError"
    assert reason.location.startswith("test_failure_groups.py:")
    assert find_reason(explain_error(KeyError())) == ("KeyError", "", "")


CATCH = """
def catch(call):
    try:
        call()
    except ValueError as error:
        return error
"""
PROCESS = "def process(call):\n    return call()\n"


def load(path: Path, code: str, name: str) -> Callable[[Callable[[], object]], Any]:
    """Return a function whose source file does not exist."""
    space: dict[str, Any] = {}
    exec(compile(code, str(path), "exec"), space)  # noqa: S102 - written above
    return space[name]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("strandline/mystage.py", "mystage.py:2"),  # a user's folder with the program's name
        ("lib/site-packages/theirs/stage.py", "stage.py:2"),  # looks like a library's path
    ],
)
def test_errors_of_libraries_are_located_at_the_calling_line(
    path: str, location: str, tmp_path: Path
) -> None:
    engine = Path(strandline.__file__).parent / "engine" / "caller.py"
    catch, process = load(engine, CATCH, "catch"), load(tmp_path / path, PROCESS, "process")

    error = catch(partial(process, partial(json.loads, "{")))

    assert find_reason(explain_error(error)).location == location


@pytest.mark.parametrize("package", ["engine", "plan", "data"])
def test_an_error_inside_the_runtime_is_located_at_the_stage_that_called_it(
    package: str, tmp_path: Path
) -> None:
    runtime = Path(strandline.__file__).parent
    catch = load(runtime / "engine/caller.py", CATCH, "catch")
    process = load(tmp_path / "mystage.py", PROCESS, "process")
    parse = load(runtime / package / "parser.py", PROCESS, "process")

    error = catch(partial(process, partial(parse, partial(json.loads, "{"))))

    assert find_reason(explain_error(error)).location == "mystage.py:2"


@pytest.mark.parametrize(
    "text", ["its worker was killed alone", "", "too many tasks (limit)", "Broken: all of it"]
)
def test_other_messages_are_texts(text: str) -> None:
    assert find_reason(text) == ("", "", text)


def test_the_largest_group_is_first_and_has_an_example() -> None:
    groups = FailureGroups()
    for number in range(5):
        groups.add(failure(f"a{number}", f"KeyError: 'k{number}' (own.py:3)"))
    groups.add(failure("b", "KeyError: 'x' (own.py:9)"))
    groups.add(failure("c", "KeyError: 'x' (own.py:3)", stage="write"))
    found = groups.list_groups()
    assert [(each.stage, str(each.reason), each.count) for each in found] == [
        ("read", "KeyError (own.py:3)", 5),
        ("read", "KeyError (own.py:9)", 1),
        ("write", "KeyError (own.py:3)", 1),
    ]
    assert found[0].example.key == "a0"


@given(kinds=st.lists(st.integers(0, 20), max_size=80), limit=st.integers(1, 30))
def test_law_every_failure_is_counted_once(kinds: list[int], limit: int) -> None:
    groups = FailureGroups(limit)
    for kind in kinds:
        groups.add(failure("k", f"E: text (e.py:{kind})"))
    found = groups.list_groups()
    assert sum(each.count for each in found) + groups.others == len(kinds)
    assert len(found) == min(limit, len(set(kinds)))
