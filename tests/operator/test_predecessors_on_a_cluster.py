"""A run after other runs waits, reports the wait, and mounts the claims that it reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from fake_api import FakeApi
from operator_bodies import KEY, NAMESPACE, make_pipeline
from simulated_cluster import SimulatedCluster
from strandline_api.status.enums import PipelinePhase
from strandline_api.status.reasons import ConditionType
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.observe import MOST_OTHERS
from strandline_operator.reconcile.scheduling.dependents import Dependents
from strandline_operator.reconcile.scheduling.schedule import Key
from test_observe import look

Body = dict[str, Any]


def make_other(name: str = "raw", **spec: Any) -> SimulatedCluster:
    cluster = SimulatedCluster()
    cluster.pipeline["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    cluster.spec.update(spec)
    return cluster


def complete(cluster: SimulatedCluster, code: int = 0) -> None:
    cluster.settle()
    cluster.run_next()
    cluster.finish(code)


def follow(*others: SimulatedCluster, **spec: Any) -> SimulatedCluster:
    """Return a pipeline that runs after others."""
    cluster = SimulatedCluster()
    for other in others:
        cluster.others[other.pipeline["metadata"]["name"]] = other
    cluster.spec.update(spec or {"after": [{"name": "raw"}]})
    return cluster


def read_succeeded(cluster: SimulatedCluster) -> tuple[str, str]:
    found = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert found is not None
    return found.status, found.reason


def test_a_run_waits_for_its_predecessor_and_names_it() -> None:
    raw = make_other()
    cluster = follow(raw)
    cluster.settle()
    assert read_succeeded(cluster) == ("Unknown", "WaitsForPipelines")
    assert cluster.status.state == "waits for raw (its next run has not started)"
    assert cluster.status.phase is PipelinePhase.PENDING
    assert cluster.status.find_condition(ConditionType.RECONCILING)
    raw.settle()
    raw.run_next()
    cluster.settle()
    assert cluster.status.state == "waits for raw (run 'first' is in progress)"
    assert not cluster.attempts
    raw.finish()
    cluster.settle()
    assert len(cluster.attempts) == 1
    # The wait causes no warning.
    assert not [event for event in cluster.events if event.is_warning]


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (64, "waits for raw (run 'first' failed)"),
        (1, "waits for raw (run 'first' is in progress)"),
    ],
)
def test_a_failed_or_retried_predecessor_is_awaited(code: int, state: str) -> None:
    raw = make_other()
    complete(raw, code)
    cluster = follow(raw)
    cluster.settle()
    assert cluster.status.state == state
    assert not cluster.attempts
    assert cluster.status.find_condition(ConditionType.STALLED) is None


def test_a_suspended_pipeline_is_reported_as_suspended() -> None:
    raw = make_other(suspend=True)
    raw.settle()
    cluster = follow(raw)
    cluster.settle()
    assert cluster.status.state == "waits for raw (suspended; run 'first' has not started)"
    raw.edit(suspend=False)
    raw.settle()
    raw.run_next()
    raw.edit(suspend=True)
    raw.settle()
    cluster.settle()
    assert cluster.status.state == "waits for raw (suspended; run 'first' has not finished)"


def test_a_predecessor_with_an_obstacle_has_not_started_its_run() -> None:
    raw = make_other(code={"configMap": "missing"})
    raw.settle()
    cluster = follow(raw)
    cluster.settle()
    assert cluster.status.state == "waits for raw (run 'first' has not started)"


def test_waiting_for_a_predecessor_stops_the_run_deadline() -> None:
    raw = make_other()
    cluster = follow(raw, after=[{"name": "raw"}], deadlines={"run": "1h"})
    cluster.settle()
    cluster.advance(10 * 3600)
    complete(raw)
    cluster.advance(5)
    assert len(cluster.attempts) == 1
    cluster.start_rayjob()
    cluster.advance(3590)
    assert cluster.status.phase is PipelinePhase.RUNNING
    cluster.advance(100)
    assert next(iter(cluster.attempts.values()))[1].cause == "DeadlineExceeded"


def test_a_missing_predecessor_is_awaited() -> None:
    cluster = follow()
    cluster.settle()
    assert cluster.status.state == "waits for raw (does not exist)"
    assert cluster.status.find_condition(ConditionType.STALLED) is None
    raw = cluster.others["raw"] = make_other()
    complete(raw)
    cluster.settle()
    assert len(cluster.attempts) == 1


def test_a_cycle_is_rejected_until_an_edit_breaks_it() -> None:
    raw, middle = make_other(after=[{"name": "middle"}]), make_other("middle")
    middle.spec["source"] = {"use": "files", "with": {"paths": [{"pipeline": "corpus"}]}}
    cluster = follow(raw, middle)
    cluster.settle()
    stalled = cluster.status.find_condition(ConditionType.STALLED)
    assert stalled is not None
    assert stalled.reason == "ComesAfterItself"
    assert "corpus comes after raw comes after middle comes after corpus" in stalled.message
    raw.spec["after"] = []
    complete(raw)
    cluster.settle()
    assert cluster.status.find_condition(ConditionType.STALLED) is None
    assert len(cluster.attempts) == 1


def test_a_named_run_must_be_the_completed_run() -> None:
    raw = make_other()
    complete(raw)
    cluster = follow(raw, after=[{"name": "raw", "runId": "second"}])
    cluster.settle()
    assert cluster.status.state == "waits for raw (run 'second' has not started)"
    raw.edit(runId="second")
    complete(raw)
    # The reference names a run, so a newer run of that pipeline does not matter.
    raw.edit(runId="third")
    raw.settle()
    cluster.settle()
    assert len(cluster.attempts) == 1


def test_an_unprocessed_edit_may_start_another_run() -> None:
    raw = make_other()
    complete(raw)
    raw.edit(runId="second")
    cluster = follow(raw)
    cluster.settle()
    assert not cluster.attempts
    raw.edit(runId="first")
    cluster.settle()
    assert not cluster.attempts
    raw.settle()
    cluster.settle()
    assert len(cluster.attempts) == 1


def test_a_requested_attempt_does_not_wait() -> None:
    cluster = follow(make_other())
    cluster.settle()
    cluster.annotate("retry", "now")
    cluster.settle()
    assert len(cluster.attempts) == 1


def test_retries_do_not_wait_but_a_new_run_does() -> None:
    raw = make_other()
    complete(raw)
    cluster = follow(raw)
    complete(cluster, 1)
    raw.edit(runId="second")
    raw.settle()
    cluster.run_next()
    assert len(cluster.attempts) == 2
    cluster.edit(runId="second")
    cluster.finish()
    cluster.advance(1)
    assert cluster.status.run == "second"
    assert read_succeeded(cluster) == ("Unknown", "WaitsForPipelines")
    assert len(cluster.attempts) == 2


REFERENCE = {"source": {"use": "jsonl-files", "with": {"paths": [{"pipeline": "raw"}]}}}


def launch(raw: SimulatedCluster, reference: Body | None = None) -> tuple[Body, Body]:
    """Return the RayJob of a pipeline that reads another, and its driver's document."""
    complete(raw)
    source = {"use": "jsonl-files", "with": {"paths": [reference or {"pipeline": "raw"}]}}
    cluster = follow(raw, source=source)
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    (config,) = cluster.list_of(Resource.CONFIG_MAP)
    return rayjob, yaml.safe_load(config["data"]["pipeline.yaml"])


def list_mounts(rayjob: Body) -> list[tuple[str, str, bool]]:
    """Return the mounts of other pipelines' claims, equal in all Ray pods."""
    cluster = rayjob["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    found = []
    for group in groups:
        spec = group["template"]["spec"]
        claims = {
            volume["name"]: volume["persistentVolumeClaim"]["claimName"]
            for volume in spec["volumes"]
            if volume["name"].startswith("strandline-input-")
        }
        mounts = spec["containers"][0]["volumeMounts"]
        found.append(
            [
                (claims[mount["name"]], mount["mountPath"], mount["readOnly"])
                for mount in mounts
                if mount["name"] in claims
            ]
        )
    assert all(mounts == found[0] for mounts in found)
    return found[0]


INPUTS = "/var/lib/strandline-inputs"


@pytest.mark.parametrize(
    ("spec", "reference", "path", "claim"),
    [
        ({}, None, f"{INPUTS}/raw-ledger/team/raw/output/", "raw-ledger"),
        (
            {},
            {"pipeline": "raw", "artifact": "list/keys.parquet"},
            f"{INPUTS}/raw-ledger/team/raw/latest/artifacts/list/keys.parquet",
            "raw-ledger",
        ),
        (
            {"storage": {"output": {"claimName": "shared"}}},
            {"pipeline": "raw", "files": "**/*.jsonl"},
            f"{INPUTS}/shared/team/raw/**/*.jsonl",
            "shared",
        ),
        ({"storage": {"output": {"url": "s3://b/raw"}}}, None, "s3://b/raw/", None),
        ({"sink": {"use": "jsonl", "with": {"path": "s3://b/x"}}}, None, "s3://b/x/", None),
        (
            {"storage": {"ledger": {"claimName": "mine"}, "output": {"url": "s3://b/raw"}}},
            {"pipeline": "raw", "artifact": "a"},
            f"{INPUTS}/mine/team/raw/latest/artifacts/a",
            "mine",
        ),
    ],
)
def test_inputs_are_mounted_at_the_drivers_paths(
    spec: Body, reference: Body | None, path: str, claim: str | None
) -> None:
    raw = make_other(**spec)
    if "storage" in spec:
        for name in ("shared", "mine"):
            raw.share_claim(name)
    rayjob, document = launch(raw, reference)
    assert document["spec"]["source"]["with"] == {"paths": [path]}
    assert "pipeline" not in json.dumps(document["spec"])
    assert list_mounts(rayjob) == ([(claim, f"{INPUTS}/{claim}", True)] if claim else [])


STORAGE: Body = {"ledger": {"claimName": "mine"}, "output": {"claimName": "shared"}}


@pytest.mark.parametrize(
    ("theirs", "own"),
    [
        ({"output": {"claimName": "shared"}}, {"output": {"claimName": "shared"}}),
        ({"ledger": {"claimName": "mine"}}, {"ledger": {"claimName": "mine"}}),
        (STORAGE, STORAGE),
        ({}, {"ledger": {"claimName": "mine"}, "output": {"claimName": "mine"}}),
    ],
)
def test_a_claim_is_in_a_pod_only_once(theirs: Body, own: Body) -> None:
    """A kubelet never starts a pod that has a claim as two volumes."""
    raw = make_other(storage=theirs)
    source = {"use": "jsonl-files", "with": {"paths": [{"pipeline": "raw"}]}}
    cluster = follow(raw, source=source, storage=own)
    for each in (raw, cluster):
        for name in ("shared", "mine"):
            each.share_claim(name)
    complete(raw)
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    given = rayjob["spec"]["rayClusterSpec"]
    (config,) = cluster.list_of(Resource.CONFIG_MAP)
    (path,) = yaml.safe_load(config["data"]["pipeline.yaml"])["spec"]["source"]["with"]["paths"]
    for group in (given["headGroupSpec"], *given["workerGroupSpecs"]):
        spec = group["template"]["spec"]
        sources = [volume.get("persistentVolumeClaim") for volume in spec["volumes"]]
        claims = [source["claimName"] for source in sources if source]
        assert len(claims) == len(set(claims))
        mounts = spec["containers"][0]["volumeMounts"]
        assert {mount["name"] for mount in mounts} <= {each["name"] for each in spec["volumes"]}
        (read,) = (each for each in mounts if path.startswith(each["mountPath"] + "/"))
        assert read["readOnly"]


def test_local_paths_of_another_pipelines_pods_can_not_be_read() -> None:
    raw = make_other(sink={"use": "jsonl", "with": {"path": "out"}})
    complete(raw)
    cluster = follow(raw, **REFERENCE)
    cluster.settle()
    assert read_succeeded(cluster) == ("Unknown", "InputNotShared")
    assert not cluster.attempts


def test_a_predecessor_deleted_before_the_launch_is_awaited() -> None:
    raw = make_other()
    complete(raw)
    cluster = follow(raw, **REFERENCE)
    cluster.pass_once()
    cluster.pass_once()
    assert cluster.attempts
    assert not cluster.list_of(Resource.RAYJOB)
    del cluster.others["raw"]
    cluster.settle()
    assert read_succeeded(cluster) == ("Unknown", "WaitsForPipelines")
    assert not cluster.list_of(Resource.RAYJOB)


def test_predecessors_are_read_by_name_and_only_before_a_start() -> None:
    api = FakeApi()
    make_pipeline(api.store, after=[{"name": "raw"}])
    make_pipeline(api.store, "raw", after=[{"name": "first"}, {"name": "corpus"}])
    view = look(api)
    assert view.others is not None
    assert {name: other is not None for name, other in view.others.items()} == {
        "raw": True,
        "first": False,
    }
    asked = [call.name for call in api.calls if call.resource is Resource.PIPELINE]
    assert asked.count("raw") == asked.count("first") == 1
    api.store.patch(Resource.PIPELINE, NAMESPACE, "corpus", {"spec": {"suspend": True}})
    assert look(api).others is None


def test_a_retry_reads_only_its_direct_inputs() -> None:
    api = FakeApi()
    make_pipeline(api.store, after=[{"name": "raw"}])
    make_pipeline(api.store, "raw", after=[{"name": "first"}])
    due = {"nextAttemptTime": "2026-01-01T00:00:00Z", "retryTrigger": "Retry"}
    status = {"observedGeneration": 1, "run": "first", **due}
    api.store.put_status(Resource.PIPELINE, NAMESPACE, "corpus", status)
    assert list(look(api).others or {}) == ["raw"]


def test_predecessors_are_read_up_to_a_limit() -> None:
    api = FakeApi()
    make_pipeline(api.store, after=[{"name": "p0"}])
    for number in range(MOST_OTHERS + 5):
        make_pipeline(api.store, f"p{number}", after=[{"name": f"p{number + 1}"}])
    view = look(api)
    assert view.others is not None
    assert len(view.others) == MOST_OTHERS


def body(name: str, truth: str = "Unknown", generation: int = 1, **spec: Any) -> Body:
    condition = {"type": "Succeeded", "status": truth}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": name, "generation": generation},
        "spec": spec,
        "status": {"run": "first", "conditions": [condition]},
    }


def test_a_predecessors_change_wakes_its_dependents() -> None:
    dependents, raw = Dependents(), Key("team", "raw")
    reads: Body = {"source": {"with": {"paths": [{"pipeline": "raw"}]}}}
    assert dependents.note(KEY, body("corpus", after=[{"name": "raw"}])) == ()
    assert dependents.note(Key("team", "reader"), body("reader", **reads)) == ()
    assert dependents.note(Key("team", "other"), body("other")) == ()
    both = (KEY, Key("team", "reader"))
    assert dependents.note(raw, body("raw")) == both
    # Progress causes no pass of the dependent pipelines.
    assert dependents.note(raw, body("raw")) == ()
    assert dependents.note(raw, body("raw", "True")) == both
    # An edit removes the dependency, and pipelines of other namespaces do not count.
    dependents.note(KEY, body("corpus", generation=2))
    assert dependents.note(Key("else", "raw"), body("raw", "True")) == ()
    assert dependents.note(raw, body("raw", "False")) == both[1:]
    gone = body("reader", **reads)
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    dependents.note(both[1], gone)
    assert dependents.note(raw, body("raw", "True")) == ()


@pytest.mark.parametrize(
    "spec", [None, [], {"after": "raw"}, {"after": [3, {}]}, {"source": {"with": "x"}}]
)
def test_documents_of_any_shape_are_accepted(spec: object) -> None:
    document = {"metadata": {"name": "corpus", "namespace": "team"}, "spec": spec, "status": 3}
    assert Dependents().note(KEY, document) == ()
