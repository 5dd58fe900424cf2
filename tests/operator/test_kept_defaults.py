"""If namespace defaults vanish, return, or change, the status keeps the values that a run needs.

Each simulated pass starts from the stored status, like a restarted operator.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest
import yaml

from fake_api import FakeApi
from operator_bodies import NAMESPACE, make_pipeline
from simulated_cluster import SimulatedCluster
from strandline_api.names import FINALIZER
from strandline_api.spec.namespace_defaults import SpecDefaults
from strandline_api.spec.policy import DisruptionPolicy, RetryPolicy
from strandline_api.status.defaults import (
    DEFAULTS_WAIT_SECONDS,
    DefaultOutput,
    DefaultsRecord,
)
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.reasons import ConditionType
from strandline_operator.decide.pipeline import decide
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Create, Resource
from test_observe import NOW, look
from test_predecessors_on_a_cluster import REFERENCE, complete, follow, make_other

IMAGE = {"ray": {"image": "registry.example/team:1", "authOptions": {"mode": "token"}}}
FIRST = {"output": {"url": "s3://team/first"}}
SECOND = {"output": {"url": "s3://team/second"}}
CLAIM = {"output": {"claimName": "shared"}}


def give(cluster: SimulatedCluster, given: dict[str, Any] | None) -> None:
    """Change the ConfigMap of defaults, or delete it if `given` is None."""
    cluster.defaults = SpecDefaults.model_validate(given or {}, by_alias=True)
    cluster.defaults_digest = "" if given is None else f"{crc32(str(given).encode()):x}"


def make_cluster(given: dict[str, Any] | None) -> SimulatedCluster:
    cluster = SimulatedCluster()
    give(cluster, given)
    return cluster


def read_reason(cluster: SimulatedCluster) -> str:
    found = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert found is not None
    return found.reason


def read_output(cluster: SimulatedCluster, number: int = 1) -> dict[str, Any] | None:
    """Return the output location in an attempt's driver config, or None if the config has none."""
    config = cluster.objects[Resource.CONFIG_MAP, f"corpus-{number}"]
    spec = yaml.safe_load(config["data"]["pipeline.yaml"])["spec"]
    output: dict[str, Any] | None = spec.get("storage", {}).get("output")
    return output


def run_again(cluster: SimulatedCluster, run: str) -> None:
    """Complete the current run, and begin another run."""
    if cluster.list_of(Resource.POD):
        cluster.finish()
    cluster.edit(runId=run)
    cluster.settle()


def list_gone(cluster: SimulatedCluster) -> list[str]:
    return [each.message for each in cluster.events if each.reason == EventReason.DEFAULTS_GONE]


def test_an_operator_starting_without_the_defaults_waits_for_them() -> None:
    cluster = make_cluster(IMAGE)
    cluster.edit(suspend=True)
    cluster.settle()
    give(cluster, None)
    cluster.restart(10.0)
    cluster.edit(suspend=False)
    cluster.settle()
    assert (read_reason(cluster), cluster.attempts) == ("DefaultsUnusable", {})
    assert "ConfigMap strandline-defaults: it is missing" in cluster.status.state
    cluster.restart(DEFAULTS_WAIT_SECONDS - 1.0)
    cluster.settle()
    assert not cluster.attempts
    give(cluster, IMAGE)
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert rayjob["spec"]["rayClusterSpec"]["authOptions"] == {"mode": "token"}
    assert cluster.status.defaults is not None
    assert cluster.status.defaults.missing_since is None
    assert not list_gone(cluster)


def test_after_five_minutes_an_event_reports_an_attempt_without_defaults() -> None:
    cluster = make_cluster(IMAGE)
    cluster.edit(suspend=True)
    cluster.settle()
    give(cluster, None)
    cluster.edit(suspend=False)
    cluster.settle()
    cluster.advance(DEFAULTS_WAIT_SECONDS - 1.0)
    assert not cluster.attempts
    cluster.advance(1.0)
    assert len(cluster.list_of(Resource.RAYJOB)) == 1
    assert len(list_gone(cluster)) == 1
    cluster.advance(60.0)
    assert len(list_gone(cluster)) == 1


def test_an_attempt_is_not_launched_while_defaults_are_missing() -> None:
    cluster = make_cluster(IMAGE)
    while not cluster.attempts:
        cluster.pass_once()
    give(cluster, None)
    cluster.settle()
    assert not cluster.list_of(Resource.RAYJOB)
    give(cluster, IMAGE)
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    head = rayjob["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    assert head["containers"][0]["image"] == "registry.example/team:1"


def test_each_absence_of_the_defaults_starts_a_new_wait() -> None:
    cluster = make_cluster(IMAGE)
    cluster.edit(suspend=True)
    cluster.settle()
    give(cluster, None)
    cluster.advance(200.0)
    give(cluster, IMAGE)
    cluster.advance(1000.0)
    give(cluster, None)
    cluster.edit(suspend=False)
    cluster.settle()
    cluster.advance(200.0)
    assert not cluster.attempts


def test_deleted_defaults_that_were_never_readable_are_awaited_too() -> None:
    cluster = make_cluster(None)
    cluster.defaults_digest, cluster.defaults_problem = "broken", "ray: this is not YAML"
    cluster.settle()
    assert not cluster.attempts
    cluster.defaults_digest, cluster.defaults_problem = "", ""
    cluster.settle()
    assert (read_reason(cluster), cluster.attempts) == ("DefaultsUnusable", {})
    # The ConfigMap may still exist if the operator cannot read it.
    cluster.defaults_problem = "the operator may not read ConfigMap strandline-defaults"
    cluster.advance(2 * DEFAULTS_WAIT_SECONDS)
    assert not cluster.attempts


def test_a_namespace_without_defaults_does_not_wait() -> None:
    cluster = make_cluster(None)
    cluster.settle()
    assert len(cluster.attempts) == 1


@pytest.mark.parametrize("step", [-7200.0, 7200.0])
def test_setting_the_clock_does_not_distort_the_wait_by_hours(
    step: float,
) -> None:
    cluster = make_cluster(IMAGE)
    cluster.edit(suspend=True)
    cluster.settle()
    give(cluster, None)
    cluster.settle()
    cluster.edit(suspend=False)
    cluster.advance(step)
    # Setting the clock forward looks like elapsed time. Setting it back restarts the wait.
    assert bool(cluster.attempts) is (step > 0)
    cluster.advance(DEFAULTS_WAIT_SECONDS)
    assert len(cluster.attempts) == 1


def test_an_invalid_pipeline_drops_its_record_of_deleted_defaults() -> None:
    """A kept record would delay each new pipeline of the namespace."""
    cluster = make_cluster(IMAGE)
    cluster.edit(suspend=True)
    cluster.settle()
    give(cluster, None)
    cluster.edit(source={"colour": "red"})
    cluster.settle()
    cluster.advance(DEFAULTS_WAIT_SECONDS)
    assert cluster.status.defaults is None


@pytest.mark.parametrize("is_missing", [True, False])
@pytest.mark.parametrize("is_deleted", [True, False])
def test_an_attempt_ending_with_unknown_defaults_is_judged_later(
    *, is_missing: bool, is_deleted: bool
) -> None:
    """The attempt ends while the namespace's retry defaults are unknown, too."""
    cluster = make_cluster(IMAGE)
    cluster.launch()
    cluster.settle()
    if is_missing:
        give(cluster, None)
    else:
        cluster.defaults_problem = "ConfigMap strandline-defaults: retry: this is not YAML"
    cluster.policy = RetryPolicy(max_retries=0, disruptions=DisruptionPolicy(max_retries=0))
    if is_deleted:
        cluster.attempts.clear()
        cluster.end_rayjob("Failed", "FAILED")
        cluster.settle()
    else:
        cluster.fail_attempt()
    found = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert found is not None
    assert (found.status, found.reason) == ("Unknown", "DefaultsUnusable")
    give(cluster, IMAGE)
    cluster.defaults_problem = ""
    cluster.policy = RetryPolicy(max_retries=5)
    cluster.settle()
    assert cluster.status.next_attempt_time is not None
    assert read_reason(cluster) == "WaitingToRetry"


def test_an_attempt_ending_with_missing_defaults_is_judged_after_the_wait() -> None:
    cluster = make_cluster(IMAGE)
    cluster.launch()
    cluster.settle()
    give(cluster, None)
    cluster.policy = RetryPolicy(max_retries=0)
    cluster.fail_attempt()
    cluster.advance(DEFAULTS_WAIT_SECONDS)
    assert read_reason(cluster) == "ApplicationError"


def test_an_attempt_completing_without_defaults_completes_the_run() -> None:
    cluster = make_cluster(IMAGE)
    cluster.launch()
    cluster.settle()
    give(cluster, None)
    cluster.finish()
    assert read_reason(cluster) == "Completed"


# New pipelines.


def test_a_new_pipeline_waits_as_long_as_the_waiting_pipelines() -> None:
    cluster = make_cluster(None)
    record = DefaultsRecord(digest="d", missing_since=cluster.time - 100.0)
    cluster.defaults_before = record
    cluster.pass_once()
    cluster.defaults_before = None
    cluster.settle()
    assert (read_reason(cluster), cluster.status.defaults) == ("DefaultsUnusable", record)
    cluster.advance(200.0)
    assert len(cluster.attempts) == 1


def test_a_pass_reads_from_other_pipelines_that_defaults_are_missing() -> None:
    api = FakeApi()
    make_pipeline(api.store)
    assert look(api).defaults_before is None
    for name, since in (("one", "1970-01-12T13:46:30Z"), ("two", "1970-01-12T13:46:00Z")):
        make_pipeline(api.store, name)
        record = {"digest": name, "missingSince": since, "output": {"url": "s3://theirs"}}
        status = {"observedGeneration": 1, "defaults": record}
        api.store.put_status(Resource.PIPELINE, NAMESPACE, name, status)
    before = look(api).defaults_before
    assert before is not None
    # The earliest wait counts. The output location is another pipeline's, so it is not taken.
    assert (before.digest, before.output) == ("two", None)
    plan = decide(look(api), NOW, Limits(), 0.0)
    assert plan.pipeline is not None
    assert plan.pipeline.defaults == before
    api.store.create(
        Resource.CONFIG_MAP, NAMESPACE, {"metadata": {"name": "strandline-defaults"}, "data": {}}
    )
    view = look(api)
    assert (view.defaults_before, bool(view.defaults_digest)) == (None, True)


def test_an_operator_that_was_just_started_reads_the_wait_from_the_status() -> None:
    api = FakeApi()
    make_pipeline(api.store)
    due = {"run": "first", "nextAttemptTime": "1970-01-12T13:00:00Z", "retryTrigger": "Run"}
    finalizers = {"metadata": {"finalizers": [FINALIZER]}}
    api.store.patch(Resource.PIPELINE, NAMESPACE, "corpus", finalizers)
    claim = {"metadata": {"name": "corpus-ledger"}, "status": {"phase": "Bound"}}
    api.store.create(Resource.CLAIM, NAMESPACE, claim)
    for digest, is_made in (("d", False), ("", True)):
        status = {"observedGeneration": 1, "defaults": {"digest": digest}, **due}
        api.store.put_status(Resource.PIPELINE, NAMESPACE, "corpus", status)
        plan = decide(look(api), NOW, Limits(), 0.0)
        made = [each for each in plan.actions if isinstance(each, Create)]
        assert (Resource.ATTEMPT in {each.resource for each in made}) is is_made


# Output locations.


@pytest.mark.parametrize("later", [FIRST, CLAIM])
def test_a_default_added_later_does_not_move_outputs(later: dict[str, Any]) -> None:
    cluster = make_cluster(None)
    cluster.launch()
    cluster.settle()
    give(cluster, later)
    run_again(cluster, "second")
    assert read_output(cluster, 2) is None
    assert cluster.status.defaults is not None
    assert cluster.status.defaults.output == DefaultOutput()


@pytest.mark.parametrize("later", [SECOND, CLAIM, {}, None])
def test_a_changed_or_removed_default_does_not_move_outputs(later: dict[str, Any] | None) -> None:
    cluster = make_cluster(FIRST)
    cluster.launch()
    cluster.settle()
    give(cluster, later)
    cluster.finish()
    cluster.advance(DEFAULTS_WAIT_SECONDS)
    run_again(cluster, "second")
    cluster.advance(DEFAULTS_WAIT_SECONDS)
    assert read_output(cluster, 2) == {"url": "s3://team/first/team/corpus"}


def test_a_default_claim_stays_the_claim() -> None:
    cluster = make_cluster(CLAIM)
    cluster.share_claim("shared")
    cluster.launch()
    cluster.settle()
    give(cluster, SECOND)
    run_again(cluster, "second")
    assert read_output(cluster, 2) == read_output(cluster, 1)
    (rayjob,) = [each for each in cluster.list_of(Resource.RAYJOB) if "status" not in each]
    volumes = rayjob["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["volumes"]
    assert "shared" in {each.get("persistentVolumeClaim", {}).get("claimName") for each in volumes}


def test_a_default_changed_before_the_rayjob_is_made_is_not_used() -> None:
    cluster = make_cluster(FIRST)
    while not cluster.attempts:
        cluster.pass_once()
    give(cluster, SECOND)
    cluster.settle()
    assert read_output(cluster) == {"url": "s3://team/first/team/corpus"}


def test_before_the_first_attempt_the_current_default_counts() -> None:
    cluster = make_cluster(FIRST)
    cluster.edit(suspend=True)
    cluster.settle()
    give(cluster, SECOND)
    cluster.edit(suspend=False)
    cluster.settle()
    assert read_output(cluster) == {"url": "s3://team/second/team/corpus"}


def test_a_pipeline_that_sets_its_own_location_stays_there() -> None:
    cluster = make_cluster(FIRST)
    cluster.launch()
    cluster.settle()
    cluster.edit(storage={"output": {"url": "s3://mine"}})
    run_again(cluster, "second")
    assert read_output(cluster, 2) == {"url": "s3://mine"}
    assert cluster.status.defaults is not None
    assert cluster.status.defaults.output is None


def test_attempts_of_an_older_operator_record_the_current_default() -> None:
    cluster = make_cluster(FIRST)
    cluster.launch()
    cluster.settle()
    cluster.status = cluster.status.model_copy(update={"defaults": None})
    cluster.settle()
    give(cluster, SECOND)
    run_again(cluster, "second")
    assert read_output(cluster, 2) == {"url": "s3://team/first/team/corpus"}


def test_no_location_is_recorded_while_defaults_can_not_be_read() -> None:
    cluster = make_cluster(FIRST)
    cluster.launch()
    cluster.settle()
    cluster.status = cluster.status.model_copy(update={"defaults": None})
    broken = "ConfigMap strandline-defaults: output: this is not YAML"
    give(cluster, {})
    cluster.defaults_problem = broken
    cluster.settle()
    give(cluster, FIRST)
    cluster.defaults_problem = ""
    run_again(cluster, "second")
    assert read_output(cluster, 2) == {"url": "s3://team/first/team/corpus"}


def test_another_pipeline_reads_the_recorded_location() -> None:
    raw = make_other()
    give(raw, FIRST)
    complete(raw)
    cluster = follow(raw, **REFERENCE)
    for each in (raw, cluster):
        give(each, SECOND)
    raw.settle()
    cluster.settle()
    config = cluster.objects[Resource.CONFIG_MAP, "corpus-1"]
    source = yaml.safe_load(config["data"]["pipeline.yaml"])["spec"]["source"]
    assert source["with"]["paths"] == ["s3://team/first/team/raw/"]


def test_a_default_of_maximum_length_does_not_fail_the_pass() -> None:
    cluster = make_cluster({"output": {"url": "s3://" + "a" * 2043}})
    cluster.settle()
    output = read_output(cluster)
    assert output is not None
    assert output["url"].endswith("aaa/team/corpus")
