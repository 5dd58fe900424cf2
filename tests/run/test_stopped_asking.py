"""A run that is stopped during requests to a model keeps the answers it paid for."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from fake_model import FakeModel, serve
from strandline_api.outcome.exit_codes import ExitCode
from test_asked_runs import NAME, AskingRuns


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_a_graceful_stop_loses_no_paid_answer(tmp_path: Path, engine: str) -> None:
    runs, model = AskingRuns(tmp_path, 200), FakeModel()
    delays = [0.3]
    with serve(model, delay=lambda: time.sleep(delays[0])) as url:
        spec = runs.describe(url)
        outcome = runs.passes.run(
            NAME, engine=engine, must_stop=lambda: model.asked.total() >= 20, **spec
        )
        assert outcome.code is ExitCode.INTERRUPTED
        asked = model.asked.total()
        assert set(runs.list_logged()) == set(model.asked)
        assert asked < len(runs.prompts)
        assert outcome.work.lost.seconds < 1.0  # the wait for answers is not lost work
        delays[0] = 0.0
        assert runs.passes.run(NAME, engine=engine, **spec).code is ExitCode.COMPLETE
    assert model.asked == Counter(runs.prompts)
    assert runs.read() == Counter(runs.prompts)
