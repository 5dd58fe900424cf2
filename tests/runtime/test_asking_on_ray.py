"""Stages that call models on Ray: state that workers share, and notes for the driver."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from fake_model import MODEL, FakeModel, serve
from strandline import Pipeline, work
from strandline.engine.core.ports import RunProgress
from strandline.plan.errors import BudgetSpentError
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.manifest.manifest import read_manifest
from strandline.stages import AskModel, Files, ParquetSink, ReadJsonl
from strandline_api.outcome.exit_codes import ExitCode
from test_own_servers import ENGINE

pytestmark = pytest.mark.first(reason="a budget is shared by workers of Ray")


@pytest.mark.more
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


# In the first tier, tests/packs covers an unreachable server in one process.
@pytest.mark.more
@pytest.mark.usefixtures("local_ray")
def test_an_unreachable_server_is_reported_while_the_run_waits(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"prompt {row}"}) + "\n" for row in range(20)]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    notes: list[str] = []
    model = FakeModel(choose=lambda prompt, _: None if notes else "503")

    def report(progress: RunProgress) -> None:
        notes[:] = progress.notes

    with serve(model) as url:
        ask = {"url": url, "model": MODEL, "prompt": "{{ text }}"}
        document = {
            "apiVersion": "strandline.dev/v1alpha1",
            "kind": "CurationPipeline",
            "metadata": {"name": "down"},
            "spec": {
                "source": {"use": "files", "with": {"paths": [f"{tmp_path}/*.jsonl"]}},
                "stages": [{"use": "read-jsonl"}, {"use": "ask-model", "with": ask}],
                "sink": {"use": "parquet"},
            },
        }
        manifest = tmp_path / "down.yaml"
        manifest.write_text(yaml.safe_dump(document))
        plan = read_manifest(manifest, volume=tmp_path).plan
        outcome = run_attempt(AttemptConfig(plan, tmp_path / "volume", engine="ray"), report=report)
    assert outcome.code is ExitCode.COMPLETE
    down, up = notes  # the first note came during the outage
    assert f"ask-model: the server {url}: the server has not responded since " in down
    assert "(503 Service Unavailable); retrying until " in down
    assert "the server responds again since " in up


# In the first tier, tests/packs/models/test_own_servers.py covers dying servers in one process.
@pytest.mark.more
@pytest.mark.usefixtures("local_ray")
def test_each_worker_has_its_own_server_and_a_dead_server_is_replaced(tmp_path: Path) -> None:
    prompts = [f"{file}-{row}" for file in range(6) for row in range(8)]
    prompts[11], prompts[40] = "die", "die again"
    for file in range(6):
        lines = [json.dumps({"text": text}) + "\n" for text in prompts[8 * file : 8 * file + 8]]
        (tmp_path / f"{file}.jsonl").write_text("".join(lines))
    (tmp_path / "engine").mkdir()
    command = [sys.executable, str(ENGINE), "{port}", "{name}", str(tmp_path / "engine")]
    serve = {"engine": "command", "model": "weights", "command": command}
    ask = AskModel(serve=serve, model="small", prompt="{{ text }}", concurrency=2)
    pipeline = Pipeline(
        "served",
        source=Files(paths=[f"{tmp_path}/*.jsonl"]),
        stages=[work(ReadJsonl(), cpu=0.1), work(ask, cpu=0.1, workers=(2, 2))],
        sink=work(ParquetSink(), cpu=0.1),
    )
    outcome = pipeline.run(tmp_path / "volume", engine="ray", progress=False)
    assert outcome.code is ExitCode.COMPLETE
    assert outcome.counts["ask-model"].counters["answers"] == len(prompts)
    started = list((tmp_path / "engine").glob("started-*"))
    assert len(started) == 4  # two, and a replacement for each dead server
