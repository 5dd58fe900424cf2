"""If the resources of a stage fail, the attempt ends, and no source fails."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from strandline import Stage, Task
from strandline.engine.call.setup import StageSetupError, find_volume_folder, set_up_stage
from strandline.engine.call.stage.stage_call import StageCall
from strandline.plan.errors import StageStoppedError
from strandline.plan.pipeline import StagePlan
from strandline.plan.task import Lineage
from strandline.storage.outputs.ports import OutputLocation
from strandline_api.outcome.causes import Cause
from strandline_api.spec.work import OnError


class Stops(Stage):
    """Raises `StageStoppedError` because its server is gone."""

    calls = 0

    def process(self, task: Task) -> Task:
        type(self).calls += 1
        raise StageStoppedError("the server has gone", is_lasting=True)


@pytest.mark.parametrize("on_error", ["fail", "drop", "deadLetter"])
def test_a_stopped_stage_blames_no_row(on_error: OnError) -> None:
    task = Task(pa.table({"n": [1, 2, 3]}), lineage=Lineage(b"s" * 16, b"t" * 16, "a"))
    Stops.calls = 0
    call = StageCall(StagePlan("s", "s", Stops(), on_error=on_error), None, lambda: 0.0)
    with pytest.raises(StageStoppedError, match="the server has gone") as caught:
        call.run([task])
    assert caught.value.is_lasting
    assert Stops.calls == 1  # the task is not split to find a failing row


class NeverReady(Stage):
    """Starts a server that never becomes ready."""

    def setup(self) -> None:
        raise StageStoppedError("its server ends", is_lasting=True, cause=Cause.MODEL_UNAVAILABLE)


def test_a_setup_that_stops_a_stage_keeps_its_cause() -> None:
    with pytest.raises(StageSetupError, match=r"'s' can't be set up: .*its server ends") as caught:
        set_up_stage(StagePlan("s", "s", NeverReady()))
    assert caught.value.cause is Cause.MODEL_UNAVAILABLE
    assert vars(caught.value)["cause"] is Cause.MODEL_UNAVAILABLE  # `__dict__` is pickled


def test_a_stage_gets_the_pipelines_folder_on_the_volume(tmp_path: Path) -> None:
    plan = StagePlan("s", "s", Stops())
    here = OutputLocation("s3://b/out", writers_lock=tmp_path / "writers.lock")
    elsewhere = OutputLocation("s3://b/out", writers_lock=tmp_path / "not" / "writers.lock")
    assert tmp_path == find_volume_folder(here)
    assert find_volume_folder(elsewhere) is find_volume_folder(OutputLocation("s3://b/out")) is None
    assert tmp_path == set_up_stage(plan, find_volume_folder(here)).stage.volume_folder
    assert plan.stage.volume_folder is None
