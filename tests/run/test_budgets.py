"""A run ends with an exit code when its budget is used up, and resumes with a higher budget."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from fake_model import MODEL, FakeModel, serve
from strandline.cli.app.commands import program
from strandline.cli.views.summary import Details, describe_outcome
from strandline.plan.errors import BudgetSpentError
from strandline.stages import AskModel
from strandline_api.outcome.exit_codes import ExitCode
from test_asked_runs import NAME, AskingRuns


def test_a_run_ends_at_its_budget_and_resumes_after_a_raise(tmp_path: Path) -> None:
    runs, model = AskingRuns(tmp_path, 20), FakeModel()
    with serve(model) as url:
        for budget in (0, 25, 40):
            with pytest.raises(BudgetSpentError, match="raise `budget` to continue") as caught:
                runs.run(url, budget={"requests": budget})
            assert caught.value.exit_code is ExitCode.BUDGET_SPENT
            assert caught.value.is_lasting
            assert model.asked.total() == budget
            assert len(runs.list_logged()) == budget
        # A budget is not part of the recipe, so finished sources stay finished.
        assert runs.run(url, budget={"requests": 60}) is ExitCode.COMPLETE
        assert runs.run(url, budget={"requests": 60}) is ExitCode.COMPLETE
    assert Counter(runs.prompts) == runs.read()
    assert set(model.asked.values()) == {1}


def test_logged_answers_cost_nothing(tmp_path: Path) -> None:
    runs, model = AskingRuns(tmp_path, 10), FakeModel()
    with serve(model) as url:
        assert runs.run(url) is ExitCode.COMPLETE
        # Requests made before the budget was set count as well.
        spec = runs.describe(url, budget={"requests": 30}, into="rating")
        assert runs.passes.run(NAME, on_change="Restart", **spec).code is ExitCode.COMPLETE
        spec = runs.describe(url, budget={"requests": 30}, prompt="{{ text }}!")
        with pytest.raises(BudgetSpentError, match="30 of 30 requests"):
            runs.passes.run(NAME, on_change="Restart", **spec)
    assert model.asked.total() == 30


def test_spending_is_counted_and_listed(tmp_path: Path) -> None:
    runs, model = AskingRuns(tmp_path, 10), FakeModel()
    prices = {"promptTokens": 1000, "completionTokens": 2000}
    with serve(model) as url:
        spec = runs.describe(url, budget={"cost": 1}, prices=prices)
        outcome = runs.passes.run(NAME, **spec)
    counters = outcome.counts["ask-model"].counters
    (line,) = [
        line for line in describe_outcome(outcome, Details()) if line.startswith("ask-model: ")
    ]
    assert "requests" in line
    assert "of answers 50% within 0." in line
    assert counters["requests"] == 30
    assert counters["spent: prompt tokens"] == 210
    assert counters["spent: completion tokens"] == 90
    assert counters["spent: cost, in millionths"] == 390_000
    answered = [number for name, number in counters.items() if name.startswith("answered within")]
    assert sum(answered) == 30

    def call(*words: str) -> str:
        manifest, volume = str(tmp_path / f"{NAME}.yaml"), str(runs.passes.volume)
        found = CliRunner().invoke(program, ["requests", *words, manifest, "--volume", volume])
        assert found.exit_code == 0, found.output
        return found.output

    assert "spent by all attempts: 30 requests, 300 tokens, cost 0.39\n" in call("list")
    assert json.loads(call("list", "--json"))[0]["spent"] == {
        "requests": 30,
        "promptTokens": 210,
        "completionTokens": 90,
        "cost": 0.39,
    }


def test_a_run_without_a_folder_for_its_account_is_refused(tmp_path: Path) -> None:
    stage = AskModel(url="http://127.0.0.1:9/v1", model=MODEL, prompt="a", requests_per_minute=1)
    stage.volume_folder = None
    with pytest.raises(ValueError, match="counted in a folder that all workers reach"):
        stage.setup()
