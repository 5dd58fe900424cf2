"""A user in a terminal has a folder of texts and the README."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from journey import Journey, assert_ends_at_once

TEXT = """\
The tide had left a line of shells along the shore, and the children walked beside it all morning.
They found a bottle without a message, two crabs, and a rope that was far too heavy to be carried.
When the water came back in the afternoon, it took what they had not put into their pockets.
Nobody was sad about that, because the line would be there again, with other things, the next day.
"""


@pytest.fixture
def user(tmp_path: Path) -> Journey:
    journey = Journey(tmp_path)
    for number in range(5):
        journey.write(f"docs/{number}.md", f"# Page {number}\n\n{TEXT}")
    return journey


def test_from_an_empty_folder_to_a_data_set_and_its_report(user: Journey) -> None:
    user.strandline("init", "documents", "--input", "docs/**/*.md")
    assert user.strandline("validate", "pipeline.yaml").code == 0
    assert "key, format, text" in user.strandline("plan", "pipeline.yaml").text

    said = user.time_first_result("run", "pipeline.yaml")

    assert said.code == 0, said
    assert len(user.list_outputs()) == 5
    assert user.strandline("verify", "pipeline.yaml").code == 0
    again = user.strandline("run", "pipeline.yaml")
    assert (again.code, "nothing left to do" in again.text) == (0, True), again
    assert user.strandline("report", "pipeline.yaml", "--out", "report.html").code == 0
    assert "<html" in (user.folder / "report.html").read_text()


def test_only_a_new_source_is_processed(user: Journey) -> None:
    user.strandline("init", "documents", "--input", "docs/**/*.md")
    user.strandline("run", "pipeline.yaml", "--engine", "inline")
    user.write("docs/new.md", TEXT)

    said = user.strandline("run", "pipeline.yaml", "--engine", "inline", "--json")

    ended = json.loads(said.text.splitlines()[-1])
    assert (ended["sources"]["skipped"], ended["sources"]["finished"]) == (5, 1), said


def test_an_empty_result_names_the_stage_that_dropped_the_rows(user: Journey) -> None:
    line = "They have said this before and will say it to all of us again.\n"
    for number in range(5):
        user.write(f"docs/{number}.md", line * 40)
    user.strandline("init", "documents", "--input", "docs/**/*.md")
    said = user.strandline("run", "pipeline.yaml", "--engine", "inline")
    assert (said.code, user.list_outputs()) == (0, [])
    assert "nothing was written; filter-text-quality dropped most rows" in said.text


def test_mistakes_are_reported_at_once(user: Journey) -> None:
    assert "did you mean" in user.strandline("runn", "pipeline.yaml").text.lower()
    assert_ends_at_once(user.strandline("run", "pipeline.yaml"), 64)  # no folder yet
    user.strandline("init", "documents", "--input", "doks/**/*.md")
    assert_ends_at_once(user.strandline("run", "pipeline.yaml"), 64)
    file = user.folder / "pipeline.yaml"
    file.write_text(file.read_text().replace("doks", "docs").replace("read-files", "read-file"))
    assert "did you mean 'read-files'" in user.strandline("validate", "pipeline.yaml").text
    file.write_text("".join(line for line in _read(file) if "read-file" not in line))
    said = user.strandline("run", "pipeline.yaml")
    assert_ends_at_once(said, 64)
    assert "'read-files' or 'split-video' before it adds 'content'" in said.text


def _read(file: Path) -> list[str]:
    return file.read_text().splitlines(keepends=True)
