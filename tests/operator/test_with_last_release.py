"""The current operator with the runtime and the definitions of the last release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from last_release import LastRelease, reading
from simulated_cluster import SimulatedCluster
from stored_documents import prune, schema_of
from strandline_api.outcome.causes import Cause, Treatment
from strandline_api.outcome.evidence import Evidence
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.pod_paths import CONFIG, MANIFEST, VOLUME
from strandline_api.status.enums import PipelinePhase
from strandline_api.status.pipeline_status import parse_status
from strandline_operator.model.plan import Resource

# Causes that are never passed to a driver, as the next test shows.
UNSPOKEN = {
    Cause.LEDGER_IN_USE: ExitCode.LEDGER_IN_USE,
    Cause.TIMEOUT: ExitCode.APPLICATION_ERROR,
    Cause.RAY_NOT_STARTED: ExitCode.APPLICATION_ERROR,
    Cause.MODEL_UNAVAILABLE: ExitCode.APPLICATION_ERROR,
    Cause.BUDGET_SPENT: ExitCode.BUDGET_SPENT,
    Cause.REQUIREMENTS_NOT_MET: ExitCode.REQUIREMENTS_NOT_MET,
}


@pytest.fixture(scope="module")
def last(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LastRelease]:
    with reading(tmp_path_factory.mktemp("release")) as release:
        yield release


@pytest.fixture
def rayjob() -> dict[str, Any]:
    cluster = SimulatedCluster()
    cluster.settle()
    (made,) = cluster.list_of(Resource.RAYJOB)
    return dict(made["spec"])


@pytest.mark.parametrize("after", ["", *(cause for cause in Cause if cause not in UNSPOKEN)])
def test_the_last_releases_driver_accepts_its_command(
    last: LastRelease, rayjob: dict[str, Any], after: str
) -> None:
    words = last.ask("command", rayjob["entrypoint"] + (f" --after {after}" if after else ""))
    assert words["file"] == f"{CONFIG}/{MANIFEST}"
    assert words["volume"] == VOLUME
    assert words["is_single"] == "True"
    assert words["after"] == (after or "None")


@pytest.mark.parametrize(("cause", "code"), UNSPOKEN.items())
def test_a_cause_unknown_to_the_last_release_is_not_passed(cause: Cause, code: ExitCode) -> None:
    cluster = SimulatedCluster.running()
    cluster.finish(code, evidence=(Evidence(cause, "as its driver says", "driver"),))
    if cause.treatment is Treatment.NEVER:
        cluster.annotate("retry", "by hand")
        cluster.settle()
    cluster.run_next()
    assert cluster.attempts["corpus-2"][0]["spec"]["retryCause"] == cause
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert "--after" not in rayjob["spec"]["entrypoint"]


def test_the_last_releases_driver_accepts_its_stop_command(
    last: LastRelease, rayjob: dict[str, Any]
) -> None:
    (head,) = rayjob["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"]
    line = head["lifecycle"]["preStop"]["exec"]["command"][-1].partition(";")[0]
    words = last.ask("command", line)
    assert (words["file"], words["waits"]) == (f"{CONFIG}/{MANIFEST}", "True")


def test_the_last_release_rejects_unknown_options(last: LastRelease) -> None:
    with pytest.raises(AssertionError, match="No such option"):
        last.ask("command", "strandline run pipeline.yaml --tolerant")


def test_a_run_completes_with_definitions_that_drop_fields(last: LastRelease) -> None:
    schema = schema_of(last.definitions["curationpipelines"])["properties"]["status"]

    def keep() -> None:
        cluster.status = parse_status(prune(cluster.status.to_json(), schema))

    cluster = SimulatedCluster.running()
    for code in (137, 0):
        keep()
        cluster.settle()
        keep()
        cluster.finish(code)
        keep()
        if code:
            cluster.run_next()
    cluster.settle()
    keep()
    assert cluster.status.phase == PipelinePhase.SUCCEEDED
    assert len(cluster.attempts) == 2
    assert cluster.pass_once().actions == ()
