"""The outcome of a run for code and notebooks."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from strandline import ExitCode, FailedTask, Outcome, Pipeline, SinkStage, Stage, Task
from strandline.errors import SpecError
from strandline.stages import Files, JsonlSink, KeepDocumented, ReadFiles
from strandline_api.documents.problems import SpecError as ApiSpecError


class Moody(Stage):
    """Raises for most tasks, and returns a failure for some."""

    def process(self, task: Task) -> Any:
        (name,) = task.table["key"].to_pylist()
        number = int(Path(name).stem)
        if number < 7:
            msg = f"no {number}"
            raise ValueError(msg)
        return FailedTask(f"row {number} is <empty>") if number < 9 else task


class OwnSink(SinkStage):
    """A sink without parameters."""

    def write(self, task: Task, file: Any) -> None:
        file.write(b"x")


def build(folder: Path, stages: list[Stage], **sink: Any) -> Pipeline:
    for number in range(10):
        (folder / f"{number}.txt").write_text(f"Note {number}.\n")
    source = Files(paths=[f"{folder}/*.txt"])
    return Pipeline("notes", source=source, stages=[ReadFiles(), *stages], sink=JsonlSink(**sink))


@pytest.fixture(params=["tracked", "untracked"])
def outcome(request: pytest.FixtureRequest, tmp_path: Path) -> Outcome:
    """Provide the outcome of a run where nine of ten sources fail, with a ledger and without."""
    is_tracked = request.param == "tracked"
    sink = {} if is_tracked else {"path": str(tmp_path / "out")}
    pipeline = build(tmp_path, [Moody()], **sink)
    return pipeline.run(tmp_path / "data" if is_tracked else None, engine="inline")


def test_failures_are_available_individually_and_by_reason(outcome: Outcome) -> None:
    assert outcome.code is ExitCode.SOURCES_FAILED
    assert {Path(failure.key).stem for failure in outcome.failures} == set("012345678")
    assert {failure.stage for failure in outcome.failures} == {"moody"}
    groups = outcome.failure_groups
    assert [(group.stage, group.count) for group in groups] == [("moody", 7), ("moody", 2)]
    assert str(groups[0].reason).startswith("ValueError (test_python_outcome.py:")
    assert groups[0].example in outcome.failures
    assert str(groups[1].reason) == "row … is <empty>"


def test_outputs_are_the_existing_files(outcome: Outcome) -> None:
    (path,) = outcome.outputs
    assert "/9.txt" in Path(path).read_text()
    assert path.startswith(f"{outcome.output}/")


def test_an_outcome_has_a_readable_representation(outcome: Outcome) -> None:
    assert repr(outcome).startswith("<Outcome SOURCES_FAILED")
    assert repr(outcome).endswith(f": {outcome.message}>")
    assert len(repr(outcome)) < 120
    lines = outcome.summary.splitlines()
    assert lines[0].startswith(outcome.message)
    assert "  7 × moody: ValueError (test_python_outcome.py:" in outcome.summary
    assert lines[-1].startswith(f"output: {outcome.output}")
    page = outcome._repr_html_()
    assert "SOURCES_FAILED" in page
    assert "row … is &lt;empty&gt;" in page
    assert "<empty>" not in page
    assert page.count("\n") == len(lines)


def test_an_outcome_can_be_pickled(outcome: Outcome) -> None:
    again = pickle.loads(pickle.dumps(outcome))  # noqa: S301 - our own
    assert again == outcome
    assert again.outputs == outcome.outputs


def test_outputs_cover_all_attempts_in_source_order(tmp_path: Path) -> None:
    pipeline = build(tmp_path, [])
    pipeline.run(tmp_path / "data", engine="inline")
    outcome = pipeline.run(tmp_path / "data", engine="inline")
    assert outcome.standing.skipped == 10
    texts = [Path(path).read_text() for path in outcome.outputs]
    assert [Path(json.loads(text)["key"]).stem for text in texts] == list("0123456789")


@pytest.mark.parametrize(("buckets", "is_packable"), [(None, True), (2, False)])
def test_only_sources_of_small_files_are_packable(
    tmp_path: Path, buckets: int | None, is_packable: bool
) -> None:
    source = Files(paths=[f"{tmp_path}/*.txt"], buckets=buckets)
    assert Pipeline("notes", source=source, sink=JsonlSink()).plan.is_packable is is_packable


def test_parameters_are_refused_by_stage_and_field() -> None:
    with pytest.raises(SpecError) as caught:
        Files(path="x")
    assert str(caught.value).splitlines() == [
        "Files.paths: required",
        "Files.path: unknown field 'path'; did you mean 'paths'?",
    ]
    assert SpecError is ApiSpecError
    with pytest.raises(ValueError, match=r"^KeepDocumented\.min_words: must be a whole number"):
        KeepDocumented(min_words="many")


def test_a_sink_without_a_path_requires_a_checkpoint_path(tmp_path: Path) -> None:
    pipeline = Pipeline("own", source=Files(paths=[f"{tmp_path}/*"]), sink=OwnSink())
    with pytest.raises(SpecError) as caught:
        pipeline.run(engine="inline")
    assert str(caught.value) == (
        "checkpoint_path: required because the sink 'own-sink' has no parameter `path`; the "
        "outputs are written to that folder"
    )
