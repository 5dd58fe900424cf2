"""A day on spot nodes: every source is finished, and no attempt counts as a failure."""

from __future__ import annotations

import pytest

from spot_day import DAY, NODES, RUNS, SOURCES, SpotRun, play_day
from strandline_api.outcome.causes import Treatment
from strandline_api.status.enums import PipelinePhase

FEW = 6  # a run takes two seconds
DAYS = [
    pytest.param((1, FEW), id="few runs"),
    pytest.param((2, RUNS), id="a thousand nodes", marks=pytest.mark.full),
]


@pytest.fixture(scope="module", params=DAYS)
def runs(request: pytest.FixtureRequest) -> list[SpotRun]:
    return play_day(*request.param)


def test_law_every_source_is_finished_and_no_attempt_counts_as_a_failure(
    runs: list[SpotRun],
) -> None:
    for run in runs:
        status = run.cluster.status
        assert status.phase is PipelinePhase.SUCCEEDED, status.state
        assert run.finished == SOURCES
        assert status.retries is not None
        assert status.retries.retries == 0
        causes = [past.cause for past in status.attempts if past.cause is not None]
        assert {cause.treatment for cause in causes} <= {Treatment.DISRUPTION}
        assert run.cluster.most_running <= 1


def test_the_day_has_lost_nodes_and_droughts(runs: list[SpotRun]) -> None:
    """Without losses and droughts, the other tests of the day would prove nothing."""
    seconds = sum(run.cluster.time - 1_000_000.0 for run in runs)
    assert seconds / len(runs) > 0.7 * DAY
    heads, workers = (sum(getattr(run, name) for run in runs) for name in ("heads", "workers"))
    assert heads > 5 * len(runs)
    assert workers > 5 * len(runs) * NODES
    assert sum(run.waited for run in runs) > len(runs) * 600
