"""A day on a thousand spot nodes: every source is finished, and nothing is paid as a failure."""

from __future__ import annotations

import pytest

from spot_day import DAY, NODES, RUNS, SOURCES, SpotRun, play_day
from strandline_api.outcome.causes import Treatment
from strandline_api.status.enums import PipelinePhase


@pytest.fixture(scope="module", params=[1, 2])
def runs(request: pytest.FixtureRequest) -> list[SpotRun]:
    return play_day(request.param)


def test_law_every_source_is_finished_and_nothing_is_paid_as_a_failure(
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


def test_the_day_was_as_rough_as_it_is_said_to_be(runs: list[SpotRun]) -> None:
    """Else the law would hold of a day on which nothing happened."""
    seconds = sum(run.cluster.time - 1_000_000.0 for run in runs)
    assert seconds / RUNS > 0.7 * DAY
    heads, workers = (sum(getattr(run, name) for run in runs) for name in ("heads", "workers"))
    assert heads > 5 * RUNS
    assert workers > 5 * RUNS * NODES
    assert sum(run.waited for run in runs) > RUNS * 600
