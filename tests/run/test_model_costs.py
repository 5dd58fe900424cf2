"""Estimates of `plan --sample`. The run does not pay again for the sampled requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fake_model import FakeModel, serve
from strandline.cli.app.commands import program
from strandline_api.outcome.exit_codes import ExitCode
from test_asked_runs import NAME, AskingRuns

PRICES = {"promptTokens": 1000, "completionTokens": 2000}


def plan(runs: AskingRuns, spec: dict[str, Any], *words: str, code: int = 0) -> str:
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": NAME},
        "spec": spec,
    }
    manifest = runs.passes.folder / f"{NAME}.yaml"
    manifest.write_text(json.dumps(document))
    call = ["plan", str(manifest), "--volume", str(runs.passes.volume), *words]
    found = CliRunner().invoke(program, call)
    assert found.exit_code == code, found.output
    return found.output


def test_a_sample_estimates_the_cost_of_a_run_and_is_paid_once(tmp_path: Path) -> None:
    runs, model = AskingRuns(tmp_path, 20), FakeModel()
    with serve(model) as url:
        spec = runs.describe(url, prices=PRICES, budget={"requests": 60})
        (asks,) = json.loads(plan(runs, spec, "--sample", "6", "--json"))["asks"]
        assert asks == {
            "stage": "ask-model",
            "rows": 60,
            "requests": 60,
            "promptTokens": 420,
            "completionTokens": 180,
            "cost": pytest.approx(0.78),
            "asked": 6,
            "failed": 0,
        }
        assert model.asked.total() == 6
        # The sample has rows of every file, because files may differ.
        assert {prompt.partition("-")[0] for prompt in model.asked} == {"0", "1", "2"}
        assert (
            "about 60 requests for 60 rows, 420 tokens of prompts, 180 of answers, cost 0.78; "
            in (plan(runs, spec, "--sample", "6"))
        )
        assert runs.passes.run(NAME, **spec).code is ExitCode.COMPLETE
    assert set(model.asked.values()) == {1}
    assert len(runs.prompts) == model.asked.total()


def test_rows_that_get_no_answer_are_counted(tmp_path: Path) -> None:
    runs = AskingRuns(tmp_path, 20)
    model = FakeModel(choose=lambda prompt, _: "refused" if prompt.startswith("1-") else None)
    with serve(model) as url:
        spec = runs.describe(url)
        spec["stages"][1].pop("onError")
        (asks,) = json.loads(plan(runs, spec, "--sample", "6", "--json"))["asks"]
    assert (asks["asked"], asks["failed"], asks["cost"]) == (6, 2, None)
    assert (asks["requests"], asks["promptTokens"]) == (60, 420)


def test_earlier_stages_that_drop_rows_lower_the_estimate(tmp_path: Path) -> None:
    runs, model = AskingRuns(tmp_path, 20), FakeModel()
    with serve(model) as url:
        spec = runs.describe(url)
        spec["stages"].insert(1, {"use": "keep-rows", "with": {"where": "endswith(text, '5')"}})
        (asks,) = json.loads(plan(runs, spec, "--sample", "3", "--json"))["asks"]
    assert (asks["rows"], asks["asked"]) == (6, 3)


def test_no_request_is_made_without_a_stage_that_calls_a_model(tmp_path: Path) -> None:
    runs = AskingRuns(tmp_path, 2)
    spec = runs.describe("http://127.0.0.1:9/v1")
    del spec["stages"][1]
    assert "no stage of this pipeline sends requests to a model" in plan(
        runs, spec, "--sample", "3", code=1
    )
