"""All engines give the same results: bytes, artifacts, counts, metrics, and failed sources."""

from __future__ import annotations

from operator import add

import pytest

from conformance import (
    REFERENCE,
    ConformanceRuns,
    Scenario,
    StoredRun,
    completes,
    is_pooled,
)
from conformance_scenarios import (
    SCENARIOS,
    casualties,
    documents,
    odd,
    payloads_apart,
    pieces,
    rows_apart,
    stopped,
)
from strandline.run.attempt.engines import ENGINES, ON_ONE_MACHINE

pytestmark = pytest.mark.first(reason="runs each scenario once on each engine")

# Scenarios whose results differ between engines, each with the reason and the test that reads them.
OWN_TESTS: dict[Scenario, str] = {
    pieces: "the failed source leaves as many pieces as were under way: test_same_flow.py",
    stopped: "the moment of a stop differs: test_same_flow.py",
    casualties: "the reference engine cannot run it: test_casualties.py",
}
# Scenarios that run on Ray only in the second tier, each with the cheaper tests.
SECOND_TIER: dict[Scenario, str] = {
    rows_apart: "`rows` on Ray and `rows_apart` on processes are in the first tier",
    payloads_apart: "`payloads` on Ray and `payloads_apart` on processes are in the first tier",
    documents: "`rows` on Ray and `documents` on processes are in the first tier",
}


def list_comparisons() -> list[object]:
    """Return a parameter for each scenario and each engine to compare with the reference."""
    params: list[object] = []
    for scenario in SCENARIOS:
        for engine in ENGINES:
            if scenario in OWN_TESTS or engine == REFERENCE:
                continue
            assert completes(scenario.__name__)(engine), "a restricted scenario needs its own test"
            is_later = scenario in SECOND_TIER and engine not in ON_ONE_MACHINE
            marks = [pytest.mark.more] if is_later else []
            params.append(
                pytest.param(scenario, engine, id=f"{scenario.__name__}-{engine}", marks=marks)
            )
    return params


each_comparison = pytest.mark.parametrize(("scenario", "engine"), list_comparisons())


def get_pair(
    runs: ConformanceRuns, scenario: Scenario, engine: str
) -> list[tuple[StoredRun, StoredRun]]:
    """Return each attempt on the engine, and the same attempt on the reference engine."""
    actual, expected = runs.get(scenario, engine), runs.get(scenario, REFERENCE)
    assert actual.keys() == expected.keys()
    return [(actual[name], expected[name]) for name in expected]


@each_comparison
def test_outputs_have_the_same_bytes(
    scenario: Scenario, engine: str, runs: ConformanceRuns
) -> None:
    for actual, expected in get_pair(runs, scenario, engine):
        assert actual.outputs.keys() == expected.outputs.keys()
        assert actual.outputs == expected.outputs
        assert len(expected.outputs) >= 5


@each_comparison
def test_artifacts_have_the_same_bytes(
    scenario: Scenario, engine: str, runs: ConformanceRuns
) -> None:
    for actual, expected in get_pair(runs, scenario, engine):
        assert actual.artifacts == expected.artifacts


def list_possible_counts(
    scenario: Scenario, expected: dict[str, tuple[int, ...]]
) -> list[dict[str, tuple[int, ...]]]:
    """Return the counts that a run may have, given the counts of the reference engine.

    In `odd`, a source fails after its first child. If its call takes long, as on a busy machine,
    the child is passed on before the failure and counts in two stages.
    """
    if scenario is not odd:
        return [expected]
    # Additional tasks in, out, filtered, and failed; rows in and out; dead letters.
    more = {"odd": (0, 1, 0, 0, 0, 1, 0), "printing": (1, 1, 0, 0, 1, 1, 0)}
    early = {
        name: tuple(map(add, counts, more[name]))
        for name, counts in expected.items()
        if name in more
    }
    return [expected, expected | early]


@each_comparison
def test_counts_and_messages_are_the_same(
    scenario: Scenario, engine: str, runs: ConformanceRuns
) -> None:
    for actual, expected in get_pair(runs, scenario, engine):
        assert actual.counts in list_possible_counts(scenario, expected.counts)
        assert actual.result.standing == expected.result.standing
        assert actual.result.code == expected.result.code
        assert actual.result.message == expected.result.message
        assert actual.result.incidents == expected.result.incidents == ()


@each_comparison
def test_failed_sources_and_source_metrics_are_the_same(
    scenario: Scenario, engine: str, runs: ConformanceRuns
) -> None:
    for actual, expected in get_pair(runs, scenario, engine):
        assert list_failed(actual) == list_failed(expected)
        assert actual.efforts == expected.efforts


def list_failed(run: StoredRun) -> set[tuple[str, str, int]]:
    """Return the key, the stage, and the number of attempts of each failed source."""
    return {(each.key, each.stage, each.times) for each in run.failures.values()}


@each_comparison
def test_files_match_the_ledger(scenario: Scenario, engine: str, runs: ConformanceRuns) -> None:
    for actual, expected in get_pair(runs, scenario, engine):
        assert actual.problems == expected.problems == []


@each_comparison
def test_the_last_progress_report_has_the_final_counts(
    scenario: Scenario, engine: str, runs: ConformanceRuns
) -> None:
    for pair in get_pair(runs, scenario, engine):
        for run in pair:
            final = [counts.tasks_in for counts in list(run.result.counts.values())[1:]]
            assert run.reports[-1] == final


def test_the_reference_engine_runs_stages_in_the_driver() -> None:
    assert [engine for engine in ENGINES if not is_pooled(engine)] == [REFERENCE]
