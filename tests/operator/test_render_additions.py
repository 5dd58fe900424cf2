"""User additions to the pods of an attempt: which containers get the additions and which do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.status.reasons import ConditionType
from strandline_operator.model.plan import Resource
from test_render import pods_of, render

NODES = ("head", "cpu")
ADDED: dict[str, Any] = {
    "env": [
        {"name": "AWS_REGION", "value": "eu-1"},
        {
            "name": "AWS_ACCESS_KEY_ID",
            "valueFrom": {"secretKeyRef": {"name": "s3", "key": "access-key"}},
        },
    ],
    "envFrom": [{"secretRef": {"name": "more"}}],
    "volumes": [{"name": "keys", "secret": {"secretName": "s3", "items": [{"key": "a"}]}}],
    "volumeMounts": [{"name": "keys", "mountPath": "/etc/keys", "readOnly": True}],
}


def ray_container(pod: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = pod["spec"]["containers"][0]
    return container


def test_additions_reach_the_ray_containers_of_head_and_groups_and_no_other_pod() -> None:
    before, after = pods_of(render(ray={})), pods_of(render(ray=ADDED))
    assert after["submitter"] == before["submitter"]
    assert set(after) == {"head", "submitter"}
    after = pods_of(render(ray={**ADDED, "workerGroups": [{"name": "cpu"}]}))
    for name in NODES:
        container, pod = ray_container(after[name]), after[name]["spec"]
        assert container["env"][-2:] == ADDED["env"]
        assert container["envFrom"] == ADDED["envFrom"]
        assert container["volumeMounts"][-1] == ADDED["volumeMounts"][0]
        assert pod["volumes"][-1] == ADDED["volumes"][0]
    assert ray_container(after["head"])["env"][0]["name"] == "RAY_task_oom_retries"
    assert {"ledger", "pipeline"} < {volume["name"] for volume in after["head"]["spec"]["volumes"]}


def test_a_template_wins_over_the_fields() -> None:
    own = {"name": "AWS_REGION", "value": "us-2"}
    template = {"spec": {"containers": [{"name": "ray-head", "env": [own]}]}}
    pods = pods_of(render(ray={**ADDED, "head": {"podTemplate": template}}))
    assert own in ray_container(pods["head"])["env"]
    assert ADDED["env"][0] not in ray_container(pods["head"])["env"]


SECRET = {"secretKeyRef": {"name": "s3", "key": "user"}}


@pytest.mark.parametrize("place", ["field", "template"])
@pytest.mark.parametrize("own", [{"value": "me"}, {"valueFrom": SECRET}])
def test_a_user_can_override_an_operator_variable(place: str, own: dict[str, Any]) -> None:
    """The server rejects duplicate variables, so the user's value replaces the operator's."""
    user = {"name": "USER", **own}
    template = {"spec": {"containers": [{"name": "ray-head", "env": [user]}]}}
    field, everywhere = {"env": [user]}, {"head": {"podTemplate": template}}
    pods = pods_of(render(ray=field if place == "field" else everywhere))
    found = [one for one in ray_container(pods["head"])["env"] if one["name"] == "USER"]
    assert found == [user]


GROUPS = [{"name": "cpu"}]


def test_a_template_for_all_pods_applies_to_the_named_container() -> None:
    template = {
        "spec": {
            "nodeSelector": {"disk": "fast"},
            "containers": [
                {"name": "ray-head", "env": [{"name": "A", "value": "head"}]},
                {"name": "ray-worker", "env": [{"name": "A", "value": "worker"}]},
                {"name": "ray-job-submitter", "env": [{"name": "A", "value": "submitter"}]},
                {"name": "logs", "image": "logs:1"},
            ],
        }
    }
    pods = pods_of(render(ray={"podTemplate": template, "workerGroups": GROUPS}))
    for name, value in {"head": "head", "cpu": "worker", "submitter": "submitter"}.items():
        ray, logs = pods[name]["spec"]["containers"]
        assert ray["image"] == "strandline/runtime:latest"
        assert {"name": "A", "value": value} in ray["env"]
        assert logs == {"name": "logs", "image": "logs:1"}
        assert pods[name]["spec"]["nodeSelector"] == {"disk": "fast"}


@pytest.mark.parametrize("template", [{"spec": {"containers": []}}, {"spec": {"containers": None}}])
def test_an_empty_list_removes_no_container(template: dict[str, Any]) -> None:
    ray = {"workerGroups": GROUPS}
    assert pods_of(render(ray=ray | {"podTemplate": template})) == pods_of(render(ray=ray))


def test_a_template_for_an_unknown_container_is_rejected_first() -> None:
    cluster = SimulatedCluster()
    template = {"spec": {"containers": [{"name": "main", "env": []}]}}
    cluster.edit(ray={"podTemplate": template})
    cluster.settle()
    assert cluster.list_of(Resource.RAYJOB) == []
    (stalled,) = [
        condition
        for condition in cluster.status.conditions
        if condition.type == ConditionType.STALLED
    ]
    assert (stalled.status, stalled.reason) == ("True", "InvalidSpec")
    assert "allowed names: 'ray-head', 'ray-worker', 'ray-job-submitter'" in stalled.message


def test_the_heads_pod_is_kept_for_commands_after_the_run() -> None:
    cluster = SimulatedCluster()
    cluster.edit(ray={"env": [{"name": "AWS_REGION", "value": "eu"}]})
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    (config,) = cluster.list_of(Resource.CONFIG_MAP)
    head = rayjob["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    assert json.loads(config["data"]["head.json"]) == head


def test_a_pod_too_large_for_the_config_map_is_not_kept() -> None:
    cluster = SimulatedCluster()
    cluster.edit(ray={"podTemplate": {"spec": {"hostAliases": ["a" * 500_000]}}})
    cluster.settle()
    (config,) = cluster.list_of(Resource.CONFIG_MAP)
    # The metadata with which a policy selects command pods stays, even if the template is too
    # large.
    assert config["data"].keys() == {"pipeline.yaml", "command-metadata.json"}
