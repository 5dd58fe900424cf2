"""Workers that hang, crash, or fail in setup fail the sources to blame, and no others."""

from __future__ import annotations

import re

import pytest

from conformance import (
    ConformanceRuns,
    Effort,
    StoredRun,
    completes,
    list_engines,
)
from conformance_scenarios import casualties
from conformance_stages import DIES, FAILS, HANGS, RAISES
from strandline.ledger.records.entries import QuarantinedSource
from strandline.ledger.store.store import Store
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.exit_codes import ExitCode

pytestmark = pytest.mark.first(reason="workers die three times for each culprit")

FAILED = {DIES, FAILS, HANGS, RAISES}
replacing = list_engines(completes("casualties"), more=True)


@pytest.fixture
def run(runs: ConformanceRuns, engine: str) -> StoredRun:
    """Return the attempt of the test's engine."""
    return runs.get(casualties, engine)["first"]


def read_parked(run: StoredRun) -> dict[str, QuarantinedSource]:
    assert run.volume is not None
    folder = PipelineFolder.on_volume(run.volume, run.plan.namespace, run.plan.name)
    store = Store(folder.ledger, readonly=True)
    try:
        return {parked.key: parked for _, parked in store.list_quarantined()}
    finally:
        store.close()


@replacing
def test_the_sources_to_blame_are_parked_and_all_others_finish(run: StoredRun) -> None:
    standing = run.result.standing
    assert run.result.code is ExitCode.COMPLETE
    assert (standing.finished, standing.quarantined, standing.failed) == (8, 4, 0)
    assert read_parked(run).keys() == {f"number-{number}" for number in FAILED}
    texts = sorted(int(content) for content in run.outputs.values())
    assert texts == [number for number in range(12) if number not in FAILED]
    assert run.problems == []


@replacing
def test_each_parked_source_has_its_stage_cause_and_message(run: StoredRun) -> None:
    parked = read_parked(run)
    assert {each.stage for each in parked.values()} == {"casualties"}
    assert parked[f"number-{HANGS}"].cause == Cause.TIMEOUT
    hung = "lost 3 workers; the last: a task took longer than the 0.5 s"
    assert hung in parked[f"number-{HANGS}"].message
    # The message names the stage and the line.
    assert re.search(
        r"process_batch \(\S+/conformance_stages.py:\d+\)", parked[f"number-{HANGS}"].message
    )
    assert parked[f"number-{DIES}"].message.startswith("lost 3 workers; the last: ")
    # The worker calls `os._exit`. Ray then reports no exit code.
    is_unknown = "was killed (SIGKILL), or called" in parked[f"number-{DIES}"].message
    expected = Cause.KILLED if is_unknown else Cause.APPLICATION_ERROR
    assert parked[f"number-{DIES}"].cause == expected
    assert parked[f"number-{RAISES}"].message.startswith("ValueError: seven")
    assert parked[f"number-{FAILS}"].message == "eight"


@replacing
def test_each_lost_worker_is_reported_once(run: StoredRun) -> None:
    incidents = run.result.incidents
    setup = [each for each in incidents if each.startswith("stage 'casualties' can't be set up")]
    assert len(setup) == 1
    assert "RuntimeError: not yet (" in setup[0]
    assert setup[0].endswith("; another worker is tried")
    hung = [each for each in incidents if " was replaced while processing " in each]
    died = [each for each in incidents if " was lost while processing " in each]
    # Each of the two sources takes three workers down alone, and more together with its neighbors.
    # One other worker ends once.
    assert len(hung) >= 3
    assert len(died) >= 4
    assert len(incidents) == len(setup) + len(hung) + len(died)
    assert run.result.pools["casualties"].lost == len(incidents)


@replacing
def test_metrics_count_each_finished_source_once(run: StoredRun) -> None:
    finished = [f"number-{number}" for number in range(12) if number not in FAILED]
    assert run.efforts.keys() == {
        (key, stage) for key in finished for stage in ("casualties", "text")
    }
    assert {(each.rows_in, each.rows_out) for each in run.efforts.values()} == {(1, 1)}
    written = {key: len(key.removeprefix("number-")) for key in finished}
    assert {run.efforts[key, "text"] for key in finished} == {
        Effort(1, 1, size) for size in written.values()
    }
