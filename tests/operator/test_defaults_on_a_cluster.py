"""Namespace defaults fill the fields that a pipeline leaves unset."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from fake_api import FakeApi
from operator_bodies import NAMESPACE, make_pipeline
from simulated_cluster import SimulatedCluster
from strandline_api.spec.namespace_defaults import SpecDefaults
from strandline_api.status.enums import AttemptPhase
from strandline_api.status.reasons import ConditionType
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Resource
from test_observe import look

Body = dict[str, Any]
QUEUE, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
GIVEN: Body = {
    "ray": {
        "image": "registry.example/team:1",
        "version": "2.55.0",
        "imagePullSecrets": [{"name": "registry"}],
        "queueName": "team-a",
        "queuePriorityClass": "low",
        "podTemplate": {"spec": {"nodeSelector": {"pool": "batch", "disk": "ssd"}}},
    },
    "output": {"url": "s3://team/clean/"},
}


def launch(given: Body, labels: Body | None = None, **spec: Any) -> tuple[Body, Body]:
    """Return the RayJob of a pipeline, and its driver's document."""
    cluster = SimulatedCluster(defaults=SpecDefaults.model_validate(given, by_alias=True))
    cluster.pipeline["metadata"]["labels"] = labels or {}
    ray = {**cluster.spec["ray"], **spec.pop("ray", {})}
    cluster.spec.update(spec, ray=ray)
    cluster.share_claim("shared")
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    (config,) = cluster.list_of(Resource.CONFIG_MAP)
    return rayjob, yaml.safe_load(config["data"]["pipeline.yaml"])


def read_pods(rayjob: Body) -> list[Body]:
    cluster = rayjob["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [group["template"]["spec"] for group in groups]


def test_an_empty_pipeline_gets_all_defaults() -> None:
    rayjob, document = launch(GIVEN)
    for pod in read_pods(rayjob):
        assert pod["containers"][0]["image"] == "registry.example/team:1"
        assert pod["imagePullSecrets"] == [{"name": "registry"}]
        assert pod["nodeSelector"] == {"pool": "batch", "disk": "ssd"}
    assert rayjob["spec"]["rayClusterSpec"]["rayVersion"] == "2.55.0"
    labels = rayjob["metadata"]["labels"]
    assert (labels[QUEUE], labels[PRIORITY]) == ("team-a", "low")
    # Pipelines get separate output locations, because a location has one owner.
    assert document["spec"]["storage"]["output"] == {"url": "s3://team/clean/team/corpus"}


def test_a_pipelines_own_fields_take_precedence_one_by_one() -> None:
    rayjob, document = launch(
        GIVEN,
        ray={
            "image": "mine:2",
            "queueName": "mine",
            "podTemplate": {"spec": {"nodeSelector": {"pool": "mine"}}},
        },
        storage={"output": {"url": "s3://mine"}},
    )
    pod = read_pods(rayjob)[0]
    assert pod["containers"][0]["image"] == "mine:2"
    assert "imagePullSecrets" not in pod
    assert "rayVersion" not in rayjob["spec"]["rayClusterSpec"]
    assert pod["nodeSelector"] == {"pool": "mine", "disk": "ssd"}
    labels = rayjob["metadata"]["labels"]
    assert (labels[QUEUE], labels[PRIORITY]) == ("mine", "low")
    assert document["spec"]["storage"]["output"] == {"url": "s3://mine"}


TOKENS: Body = {"ray": {"version": "2.60.0", "authOptions": {"mode": "token"}}}


@pytest.mark.parametrize(
    ("own", "name", "chosen"),
    [
        ({}, "authOptions", {"mode": "token"}),
        # The operator does not know the fields of KubeRay's options, so they are replaced, not
        # merged.
        ({"authOptions": {"secretName": "mine"}}, "authOptions", {"secretName": "mine"}),
        ({"authOptions": {"mode": "disabled"}}, "authOptions", {"mode": "disabled"}),
        ({}, "tlsOptions", {"enabled": True}),
        ({}, "gcsFaultToleranceOptions", {"redisAddress": "redis:6379"}),
    ],
)
def test_a_namespace_can_set_kuberays_own_options(own: Body, name: str, chosen: Body) -> None:
    others = {
        "tlsOptions": {"enabled": True},
        "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
    }
    rayjob, _ = launch({"ray": {**TOKENS["ray"], **others}}, ray=own)
    assert rayjob["spec"]["rayClusterSpec"][name] == chosen


def test_a_queue_label_and_a_sink_path_override_the_defaults() -> None:
    sink = {"use": "jsonl", "with": {"path": "s3://mine/x"}}
    rayjob, document = launch(GIVEN, {QUEUE: "mine"}, sink=sink)
    assert rayjob["metadata"]["labels"][QUEUE] == "mine"
    assert "storage" not in document["spec"]


def test_a_default_output_claim_is_mounted_and_checked() -> None:
    given = {"output": {"claimName": "shared"}}
    rayjob, document = launch(given)
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in read_pods(rayjob)[1]["volumes"]
        if volume["name"] == "output"
    ]
    assert claims == ["shared"]
    assert document["spec"]["storage"]["output"]["url"].endswith("/team/corpus")
    cluster = SimulatedCluster(defaults=SpecDefaults.model_validate(given, by_alias=True))
    cluster.settle()
    storage = cluster.status.find_condition(ConditionType.STORAGE_READY)
    assert storage is not None
    assert storage.reason == "ClaimMissing"


def test_defaults_come_from_the_config_map_and_the_claim_is_read() -> None:
    api = FakeApi()
    make_pipeline(api.store)
    config = {"metadata": {"name": "strandline-defaults"}, "data": {"output": "claimName: shared"}}
    api.store.create(Resource.CONFIG_MAP, NAMESPACE, config)
    claim = {"metadata": {"name": "shared"}, "spec": {"accessModes": ["ReadWriteMany"]}}
    api.store.create(Resource.CLAIM, NAMESPACE, claim)
    view = look(api)
    assert view.defaults.output.claim_name == "shared"
    assert view.output is not None
    # The view keeps the user's spec.
    assert view.pipeline.spec is not None
    assert view.pipeline.spec.storage.output.claim_name is None


def test_another_pipelines_outputs_are_read_from_the_default_location() -> None:
    other = SimulatedCluster(defaults=SpecDefaults.model_validate(GIVEN, by_alias=True))
    other.launch()
    other.settle()
    other.finish()
    other.pipeline["metadata"] |= {"name": "raw", "uid": "uid-raw"}
    cluster = SimulatedCluster(defaults=SpecDefaults.model_validate(GIVEN, by_alias=True))
    cluster.others["raw"] = other
    cluster.spec["source"] = {"use": "jsonl-files", "with": {"paths": [{"pipeline": "raw"}]}}
    cluster.settle()
    (config,) = cluster.list_of(Resource.CONFIG_MAP)
    document = yaml.safe_load(config["data"]["pipeline.yaml"])
    assert document["spec"]["source"]["with"]["paths"] == ["s3://team/clean/team/raw/"]


@pytest.mark.parametrize(
    ("labels", "passed"),
    [
        (
            {"ray.io/scheduler-name": "volcano", "volcano.sh/queue-name": "team", "mine": "x"},
            {"ray.io/scheduler-name": "volcano", "volcano.sh/queue-name": "team"},
        ),
        (
            {"yunikorn.apache.org/queue": "root.team", "yunikorn.apache.org/app-id": "all"},
            {"yunikorn.apache.org/queue": "root.team", "yunikorn.apache.org/app-id": "corpus-1"},
        ),
        ({"mine": "x"}, {}),
    ],
)
def test_labels_of_batch_schedulers_pass_through(labels: Body, passed: Body) -> None:
    rayjob, _ = launch({}, labels)
    found = {
        name: value
        for name, value in rayjob["metadata"]["labels"].items()
        if not name.startswith(("strandline.dev/", "app.kubernetes.io/"))
    }
    assert found == passed


def test_unknown_defaults_prevent_new_attempts_and_launches() -> None:
    """Without the defaults, the attempt might use another image, other nodes, or another output."""
    cluster = SimulatedCluster(defaults_problem="ConfigMap strandline-defaults: ray: no YAML")
    cluster.settle()
    condition = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert condition is not None
    assert (condition.reason, cluster.attempts) == ("DefaultsUnusable", {})
    assert "ConfigMap strandline-defaults: ray: no YAML" in condition.message
    cluster.defaults_problem = ""
    while not cluster.attempts:
        cluster.pass_once()
    cluster.defaults_problem = "ConfigMap strandline-defaults: it was there and is gone"
    cluster.settle()
    assert cluster.list_of(Resource.RAYJOB) == []
    cluster.defaults_problem = ""
    cluster.settle()
    assert len(cluster.list_of(Resource.RAYJOB)) == 1


def test_a_running_attempt_continues_with_unknown_defaults() -> None:
    cluster = SimulatedCluster.running()
    cluster.defaults_problem = "ConfigMap strandline-defaults: ray: no YAML"
    cluster.settle()
    (status,) = [status for _, status in cluster.attempts.values()]
    assert status.phase is AttemptPhase.RUNNING


OWN = "strandline-operator"
NAMED: list[Body] = [
    {"serviceAccountName": OWN},
    {"podTemplate": {"spec": {"serviceAccountName": OWN}}},
    {"podTemplate": {"spec": {"serviceAccount": OWN}}},
    {"head": {"podTemplate": {"spec": {"serviceAccountName": OWN}}}},
    {"workerGroups": [{"name": "cpu", "podTemplate": {"spec": {"serviceAccountName": OWN}}}]},
]


@pytest.mark.parametrize("ray", NAMED)
@pytest.mark.parametrize("namespace", [NAMESPACE, "other"])
def test_no_pod_of_a_pipeline_has_the_operators_account(ray: Body, namespace: str) -> None:
    cluster = SimulatedCluster(limits=Limits(account=f"{namespace}/{OWN}"))
    cluster.spec["ray"] = {**cluster.spec["ray"], **ray}
    cluster.settle()
    condition = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert condition is not None
    is_reserved = namespace == NAMESPACE
    assert (condition.reason == "AccountReserved") is is_reserved
    assert bool(cluster.list_of(Resource.RAYJOB)) is not is_reserved
    if is_reserved:
        cluster.spec["ray"] = {"workerGroups": [{"name": "cpu"}]}
        cluster.settle()
        assert cluster.list_of(Resource.RAYJOB)


def test_a_namespace_default_can_not_set_the_operators_account() -> None:
    template = {"spec": {"serviceAccountName": OWN}}
    given = SpecDefaults.model_validate({"ray": {"podTemplate": template}}, by_alias=True)
    cluster = SimulatedCluster(defaults=given, limits=Limits(account=f"{NAMESPACE}/{OWN}"))
    cluster.settle()
    assert cluster.list_of(Resource.RAYJOB) == []


@pytest.mark.parametrize("name", [None, "curators"])
def test_an_operator_with_the_default_account_requires_an_explicit_account(
    name: str | None,
) -> None:
    cluster = SimulatedCluster(limits=Limits(account=f"{NAMESPACE}/default"))
    if name is not None:
        cluster.spec["ray"] = {**cluster.spec["ray"], "serviceAccountName": name}
    cluster.settle()
    assert bool(cluster.list_of(Resource.RAYJOB)) is (name is not None)
