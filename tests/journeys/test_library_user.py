"""A user builds a pipeline in Python, with custom stages."""

from __future__ import annotations

from pathlib import Path

import pytest

from journey import Journey

STAGES = '''
from strandline import Stage, Task


class Moody(Stage):
    """Fails where it does not like a text."""

    def process(self, task: Task) -> Task:
        if b"bad" in task.table["content"][0].as_py():
            raise ValueError("I don't like it")
        return task
'''
SCRIPT = """
from own_stages import Moody

from strandline import Pipeline
from strandline.stages import Files, JsonlSink, ParseDocuments, ReadFiles

pipeline = Pipeline(
    "notes",
    source=Files(paths=["notes/*.txt"]),
    stages=[ReadFiles(), Moody(), ParseDocuments()],
    sink=JsonlSink(),
)
outcome = pipeline.run(checkpoint_path="data", engine="inline")
standing = outcome.standing
print(int(outcome.code), standing.finished, standing.failed, outcome.message)
"""


@pytest.fixture
def user(tmp_path: Path) -> Journey:
    journey = Journey(tmp_path)
    for number in range(4):
        journey.write(f"notes/{number}.txt", "a bad one" if number == 2 else f"note {number}")
    journey.write("own_stages.py", STAGES)
    journey.write("script.py", SCRIPT)
    return journey


def test_a_fixed_source_is_processed_alone(user: Journey) -> None:
    first = user.python("script.py")
    assert first.text.startswith("3 3 1 "), first
    user.write("notes/2.txt", "a good one")

    second = user.python("script.py")

    assert second.text.startswith("0 1 0 complete: all 4"), second


def test_a_wrong_parameter_is_named(user: Journey) -> None:
    user.write("script.py", SCRIPT.replace("ParseDocuments()", "ParseDocuments(textfield='x')"))
    said = user.python("script.py")
    assert "textfield" in said.text
    assert said.code != 0


def test_a_stage_without_its_column_is_refused_before_anything_runs(user: Journey) -> None:
    user.write("script.py", SCRIPT.replace("ReadFiles(), Moody(), ", ""))
    said = user.python("script.py")
    assert "reads 'content', but the columns are: key, path, size, mtime_ns" in said.text
    assert not (user.folder / "data").exists()
