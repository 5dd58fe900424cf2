"""Stages that ask models, on Ray: what their workers share, and what reaches the driver."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fake_model import MODEL, FakeModel, serve
from strandline import Pipeline, work
from strandline.plan.errors import BudgetSpentError
from strandline.stages import AskModel, Files, ParquetSink, ReadJsonl
from strandline_api.outcome.exit_codes import ExitCode


@pytest.mark.usefixtures("local_ray")
def test_workers_share_a_budget(tmp_path: Path) -> None:
    for file in range(6):
        lines = [json.dumps({"text": f"{file}-{row}"}) + "\n" for row in range(10)]
        (tmp_path / f"{file}.jsonl").write_text("".join(lines))
    model = FakeModel()

    def run(url: str, budget: int) -> ExitCode:
        ask = AskModel(
            url=url, model=MODEL, prompt="{{ text }}", concurrency=4, budget={"requests": budget}
        )
        pipeline = Pipeline(
            "shared",
            source=Files(paths=[f"{tmp_path}/*.jsonl"]),
            stages=[work(ReadJsonl(), cpu=0.1), work(ask, cpu=0.1, workers=(3, 3))],
            sink=work(ParquetSink(), cpu=0.1),
        )
        return pipeline.run(tmp_path / "volume", engine="ray", progress=False).code

    with serve(model) as url:
        with pytest.raises(BudgetSpentError, match="35 of 35 requests"):
            run(url, 35)
        assert model.asked.total() == 35
        assert run(url, 60) is ExitCode.COMPLETE
    assert set(model.asked.values()) == {1}
