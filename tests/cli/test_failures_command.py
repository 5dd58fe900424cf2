"""Reasons of failed sources in a run's summary, in `failures`, and in `attempts show`."""

from __future__ import annotations

import json
import re

import pytest

from cli_project import Call, Project, read_errors
from strandline.cli.views.failures import describe_failures
from strandline.ledger.records.entries import FailureRecord
from strandline.run.attempt.failures import find_reason, group_failures

MOODY = """
def process(self, task):
    number = int(task.lineage.key[3:-4])
    if number == 0:
        raise KeyError(number)
    if number < 5:
        raise ValueError(f"no {number}")
    return task
"""


@pytest.fixture
def moody(project: Project, run: Call) -> Project:
    """Make five of six sources fail in one attempt, for two reasons."""
    for number in range(3, 6):
        (project.path / f"in/{number}.txt").write_text("x")
    project.add_stage(MOODY)
    assert run().exit_code == 3
    return project


def fail(key: str, message: str, stage: str = "moody") -> FailureRecord:
    return FailureRecord(key, 1, stage, message, 1)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("ValueError: no 7 (moody.py:10)", "ValueError (moody.py:10)"),
        ("ValueError: two\\nlines: (a) (b.py:1) (moody.py:10)", "ValueError (moody.py:10)"),
        ("UnicodeDecodeError (moody.py:3)", "UnicodeDecodeError (moody.py:3)"),
        ("TimeoutError", "TimeoutError"),
        ("row 17 of 'a.txt' is empty", "row … of … is empty"),
        ("no such file: /data/in/7.txt", "no such file: …"),
        ("it is empty", "it is empty"),
        ("", ""),
    ],
)
def test_a_reason_omits_parts_specific_to_a_source(message: str, reason: str) -> None:
    assert str(find_reason(message)) == reason


def test_failures_are_grouped_by_stage_error_and_location() -> None:
    failures = [
        *(fail(f"{n}.txt", f"ValueError: no {n} (moody.py:10)") for n in range(667)),
        fail("a", "ValueError: no (moody.py:11)"),
        fail("b", "KeyError: no (moody.py:10)"),
        fail("c", "ValueError: no (moody.py:10)", stage="calm"),
    ]
    lines = list(describe_failures(group_failures(failures), 670))
    assert lines == [
        "670 sources failed:",
        "  667 × moody: ValueError (moody.py:10)",
        "      such as 0.txt: ValueError: no 0 (moody.py:10)",
        "  a: moody: ValueError: no (moody.py:11)",
        "  b: moody: KeyError: no (moody.py:10)",
        "  c: calm: ValueError: no (moody.py:10)",
    ]


def test_the_most_frequent_reasons_are_shown() -> None:
    letters = [letter * (2 if letter == "z" else 1) for letter in "abcdefghijklmnopqrstuvwxyz"]
    failures = [fail(letter, f"{letter[0]} is bad") for word in letters for letter in word]
    lines = list(describe_failures(group_failures(failures), len(failures)))
    assert lines[1:3] == ["  2 × moody: z is bad", "      such as z"]
    assert lines[-1] == "  and 16 more for other reasons"
    assert len(lines) == 1 + 2 + 9 + 1


def test_a_message_is_shown_unchanged_without_control_characters() -> None:
    long = f"ValueError: {'x' * 1000} (moody.py:10)"
    group = group_failures([fail("a\x1b", long), fail("b", long)])
    *_, line = describe_failures(group, 2)
    assert line.startswith(r"      such as a\x1b: ValueError: xxx")
    assert len(line) < 400


def test_failures_shows_each_reason_with_its_count(moody: Project, call: Call) -> None:
    lines = call("failures", "pipeline.yaml").stdout.splitlines()
    assert lines[0] == "5 sources failed:"
    assert re.fullmatch(r"  4 × own: ValueError \(own_stage_\d+\.py:11\)", lines[1])
    assert re.match(r"      such as in/(\d)\.txt: ValueError: no \1 \(", lines[2])
    assert re.match(r"  in/0\.txt: own: KeyError: 0 \(", lines[3])
    assert lines[4] == "full list: `strandline ledger sources FILE --state failed`"
    shown = call("attempts", "show", "pipeline.yaml", "1").stdout
    assert "\n".join(lines[:4]) in shown

    objects = [
        json.loads(line) for line in call("failures", "pipeline.yaml", "--json").stdout.splitlines()
    ]
    assert [each["count"] for each in objects] == [4, 1]
    assert objects[1]["example"] == {
        "key": "in/0.txt",
        "attempt": 1,
        "message": objects[1]["example"]["message"],
    }
    assert objects[1].keys() == {"state", "stage", "reason", "count", "example"}


def test_mended_sources_are_not_failures(moody: Project, run: Call, call: Call) -> None:
    (use,) = [stage["use"] for stage in moody.spec["stages"] if "own" in stage["use"]]
    file = moody.path / f"{use.partition(':')[0]}.py"
    moody.spec["stages"][-1]["use"] = "keep-documented"
    moody.spec["stages"].pop()
    moody.spec["onChange"] = "Continue"
    moody.save()
    assert file.exists()
    assert run().exit_code == 0
    assert call("failures", "pipeline.yaml").stdout == "no source has failed\n"
    assert call("failures", "pipeline.yaml", "--json").stdout == ""


def test_reasons_stay_when_sources_are_quarantined(moody: Project, run: Call, call: Call) -> None:
    before = call("failures", "pipeline.yaml").stdout.splitlines()
    moody.spec["quarantine"] = {"after": 2, "tolerate": "100%"}
    moody.save()
    run()

    after = call("failures", "pipeline.yaml").stdout.splitlines()

    assert after[:2] == ["no source has failed", "5 sources quarantined:"]
    told = [re.sub(r"in/\d.txt: |no \d", "", line) for line in before[1:4]]
    found = [re.sub(r"in/\d.txt: |no \d", "", line) for line in after[2:5]]
    assert found == [line.replace("own: ", "ApplicationError: own: ", 1) for line in told]
    assert after[5:] == ["full list: `strandline ledger quarantine list FILE`"]
    objects = [
        json.loads(line) for line in call("failures", "pipeline.yaml", "--json").stdout.splitlines()
    ]
    assert [(each["state"], each["count"]) for each in objects] == [
        ("quarantined", 4),
        ("quarantined", 1),
    ]


def test_failed_and_quarantined_sources_are_distinguished(
    project: Project, run: Call, call: Call
) -> None:
    project.spec["quarantine"] = {"after": 1, "tolerate": "100%"}
    project.add_stage("def process(self, task):\n    raise ValueError('no')")
    run()
    project.spec["quarantine"] = {"after": 9}
    (project.path / "in/new.txt").write_text("x")
    project.save()
    run()

    lines = call("failures", "pipeline.yaml").stdout.splitlines()

    assert lines[0] == "1 source failed:"
    assert lines[2] == "full list: `strandline ledger sources FILE --state failed`"
    assert lines[3] == "3 sources quarantined:"


def test_a_summary_groups_quarantined_sources(project: Project, run: Call) -> None:
    project.spec["quarantine"] = {"after": 1, "tolerate": "100%"}
    project.add_stage("def process(self, task):\n    raise ValueError(task.lineage.key)")
    lines = run().stdout.splitlines()
    at = lines.index("quarantined now:")
    assert re.match(r"  3 × ApplicationError: own: ValueError \(own_stage_", lines[at + 1])
    assert re.match(r"      such as in/(\d.txt): ValueError: in/\1 \(own", lines[at + 2])
    assert lines[at + 3] == "  all of them: `strandline ledger quarantine list FILE`"


def test_without_a_ledger_no_failures_are_reported(project: Project, call: Call) -> None:
    assert project.folder.parent.parent.name == "strandline-data"
    result = call("failures", "pipeline.yaml")
    assert result.exit_code == 65
    assert "ledger" in read_errors(result)
