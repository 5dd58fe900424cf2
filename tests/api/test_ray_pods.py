"""Users add variables, volumes, and templates to Ray's containers; templates match their pods."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline_documents import with_change
from strandline_api.documents.documents import parse_pipeline
from strandline_api.documents.problems import SpecError
from strandline_api.documents.stored import omit_defaults
from strandline_api.spec.pod_paths import (
    CONTAINERS,
    RESERVED_PATHS,
    SHARED_PATHS,
    VARIABLE_PREFIXES,
    VOLUME_NAMES,
)
from strandline_api.spec.pods.variables import TAKEN_VARIABLE
from strandline_api.spec.pods.volumes import TAKEN_PATH, TAKEN_VOLUME
from strandline_api.spec.ray_cluster import RayCluster

SECRET = {"name": "s3", "key": "access-key"}
FULL: dict[str, Any] = {
    "env": [
        {"name": "AWS_REGION", "value": "eu-1"},
        {"name": "AWS_ACCESS_KEY_ID", "valueFrom": {"secretKeyRef": SECRET}},
        {"name": "EMPTY"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "MEM", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
    ],
    "envFrom": [{"configMapRef": {"name": "site", "optional": True}, "prefix": "SITE_"}],
    "volumes": [
        {"name": "keys", "secret": {"secretName": "s3", "defaultMode": 0o400}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
    ],
    "volumeMounts": [{"name": "keys", "mountPath": "/etc/keys", "readOnly": True}],
}


def read_ray(**fields: Any) -> RayCluster:
    return parse_pipeline(with_change("spec.ray", fields)).spec.ray


def refuse(**fields: Any) -> str:
    """Return the single error message for a `ray` with these fields."""
    with pytest.raises(SpecError) as caught:
        read_ray(**fields)
    (problem,) = caught.value.problems
    return str(problem)


def test_fields_of_a_deployment_can_be_pasted() -> None:
    ray = read_ray(**FULL)
    spelled = ray.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert spelled == FULL


def test_free_form_fields_are_not_omitted_as_defaults() -> None:
    given = {"volumes": FULL["volumes"], "submissionMode": "K8sJobMode"}
    assert omit_defaults(given, read_ray(**given)) == {"volumes": FULL["volumes"]}


def test_nothing_is_added_by_default() -> None:
    ray = read_ray()
    assert (ray.env, ray.env_from, ray.volumes, ray.volume_mounts) == ((), (), (), ())


@pytest.mark.parametrize("name", [f"{prefix}ADDRESS" for prefix in VARIABLE_PREFIXES])
def test_an_operator_variable_is_rejected(name: str) -> None:
    assert refuse(env=[{"name": name}]) == f"spec.ray.env[0].name: {TAKEN_VARIABLE}"


def test_a_prefix_that_creates_operator_variables_is_rejected() -> None:
    source = {"prefix": "RAY_", "secretRef": {"name": "s3"}}
    assert refuse(envFrom=[source]) == f"spec.ray.envFrom[0].prefix: {TAKEN_VARIABLE}"


@pytest.mark.parametrize("name", VOLUME_NAMES)
def test_an_operator_volume_is_rejected(name: str) -> None:
    said = refuse(volumes=[{"name": name, "emptyDir": {}}])
    assert said == f"spec.ray.volumes[0].name: {TAKEN_VOLUME}"


@pytest.mark.parametrize(
    "path",
    [
        *RESERVED_PATHS,
        *SHARED_PATHS,
        *(f"{place}/deep/er" for place in RESERVED_PATHS),
        *(f"{place}/" for place in (*RESERVED_PATHS, *SHARED_PATHS)),
    ],
)
def test_an_operator_path_is_rejected(path: str) -> None:
    fields = {**FULL, "volumeMounts": [{"name": "keys", "mountPath": path}]}
    assert refuse(**fields) == f"spec.ray.volumeMounts[0].mountPath: {TAKEN_PATH}"


@pytest.mark.parametrize(
    "path",
    [f"{SHARED_PATHS[0]}/keys", "/var/lib/strandline2", "/etc/strand", f"{SHARED_PATHS[1]}2"],
)
def test_a_path_beside_the_operators_paths_is_accepted(path: str) -> None:
    ray = read_ray(**FULL | {"volumeMounts": [{"name": "keys", "mountPath": path}]})
    assert ray.volume_mounts[0].mount_path == path


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"env": [{"name": "A", "value": 1}]}, "env[0].value: must be text, not 1; put it in"),
        ({"env": [{"name": "A"}, {"name": "A"}]}, "env: must not contain 'A' twice"),
        ({"env": [{"name": "1A"}]}, "env[0].name: must be letters, digits"),
        ({"env": [{"name": "A", "val": "x"}]}, "unknown field 'val'; did you mean 'value'?"),
        (
            {"env": [{"name": "A", "value": "x", "valueFrom": {"secretKeyRef": SECRET}}]},
            "env[0]: give 'value' or 'valueFrom', not both",
        ),
        ({"env": [{"name": "A", "valueFrom": {}}]}, "env[0].valueFrom: 'valueFrom' needs one of"),
        (
            {
                "env": [
                    {
                        "name": "A",
                        "valueFrom": {"secretKeyRef": SECRET, "configMapKeyRef": SECRET},
                    }
                ]
            },
            "env[0].valueFrom: 'valueFrom' needs one of",
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s3"}}}]},
            "env[0].valueFrom.secretKeyRef.key: required",
        ),
        ({"envFrom": [{"prefix": "A"}]}, "envFrom[0]: give one of 'secretRef' and"),
        (
            {"envFrom": [{"secretRef": {"name": "a"}, "configMapRef": {"name": "a"}}]},
            "envFrom[0]: give one of 'secretRef' and",
        ),
        ({"volumes": [{"name": "a"}, {"name": "a"}]}, "volumes: must not contain 'a' twice"),
        (
            {"volumes": [{"name": "a", "emptyDir": {}, "secret": {"secretName": "s"}}]},
            "volumes[0]: a volume has one kind, not emptyDir and secret",
        ),
        (
            {"volumes": [{"name": "a", "secret": {"name": "s"}}]},
            "volumes[0].secret.secretName: required",
        ),
        (
            {"volumeMounts": [{"name": "a", "mountPath": "/a"}]},
            "ray: 'volumeMounts' may name only volumes that are listed in 'volumes' next to it",
        ),
        (
            {"volumeMounts": [{"name": "a", "mountPath": "a/b"}]},
            "mountPath: must be an absolute path",
        ),
        (
            {
                "volumes": [{"name": "a"}],
                "volumeMounts": [{"name": "a", "mountPath": "/a"}] * 2,
            },
            "volumeMounts: must not contain '/a' twice",
        ),
    ],
)
def test_fields_that_make_an_invalid_pod_are_rejected(fields: dict[str, Any], said: str) -> None:
    assert said in refuse(**fields)


@pytest.mark.parametrize(
    ("toleration", "said"),
    [
        ({}, "a toleration without 'key' applies to all taints and needs 'operator: Exists'"),
        ({"value": "a"}, "a toleration without 'key'"),
        ({"key": "a", "operator": "Exists", "value": "b"}, "'value' must be empty"),
        ({"key": "a", "tolerationSeconds": 5}, "'tolerationSeconds' needs 'effect: NoExecute'"),
        (
            {"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5},
            "'tolerationSeconds' needs 'effect: NoExecute'",
        ),
        ({"key": "a b"}, "key: must be letters, digits"),
        ({"key": "Example.com/a"}, "key: must be letters, digits"),
        ({"key": "a/b/c"}, "key: must be letters, digits"),
        ({"key": f"{'a' * 64}"}, "key: must be letters, digits"),
        ({"key": "a", "value": "b c"}, "value: must be letters, digits"),
        ({"key": "a", "value": "-b"}, "value: must be letters, digits"),
    ],
)
def test_an_invalid_toleration_is_rejected_when_read(toleration: dict[str, Any], said: str) -> None:
    for place in ("tolerations", "fallback"):
        facts: dict[str, Any] = {"tolerations": [toleration]}
        if place == "fallback":
            facts = {"fallback": {"afterDisruptions": 1, **facts}}
        assert said in refuse(head={"spot": {"preset": "gke", **facts}})


@pytest.mark.parametrize(
    "labels", [{"a b": "c"}, {"/a": "c"}, {"a/": "c"}, {"": "c"}, {"a": "c d"}, {"a": "c-"}]
)
def test_an_invalid_node_label_is_rejected_when_read(labels: dict[str, str]) -> None:
    assert "must be letters, digits" in refuse(head={"spot": {"nodeSelector": labels}})
    fallback = {"afterDisruptions": 1, "nodeSelector": labels}
    said = refuse(head={"spot": {"preset": "gke", "fallback": fallback}})
    assert "must be letters, digits" in said


def test_fields_valid_in_kubernetes_are_accepted() -> None:
    tolerations = [
        {"operator": "Exists"},
        {"key": "example.com/pool", "operator": "Exists", "effect": "NoExecute"},
        {"key": "pool", "value": "", "effect": "NoExecute", "tolerationSeconds": 0},
        {"key": "CloudPool_1.a", "operator": "Equal", "value": "spot-1.b_C"},
    ]
    labels = {"cloud.google.com/gke-spot": "true", "kubernetes.io/arch": ""}
    read_ray(head={"spot": {"nodeSelector": labels, "tolerations": tolerations}})


def template_of(*containers: Any, kind: str = "containers") -> dict[str, Any]:
    return {"spec": {kind: list(containers)}}


def place(template: dict[str, Any], where: str) -> dict[str, Any]:
    """Return a `ray` field with a template for all pods, the head, or a group."""
    if where == "workerGroups[0]":
        return {"workerGroups": [{"name": "a", "podTemplate": template}]}
    return {"head": {"podTemplate": template}} if where == "head" else {"podTemplate": template}


FITTING = {"": CONTAINERS, "head": ("ray-head",), "workerGroups[0]": ("ray-worker",)}


@pytest.mark.parametrize("where", FITTING)
@pytest.mark.parametrize("name", [*CONTAINERS, "main"])
def test_an_unknown_container_is_rejected_with_the_valid_names(where: str, name: str) -> None:
    fields = place(template_of({"name": name, "env": []}), where)
    if name in FITTING[where]:
        read_ray(**fields)
        return
    path = f"{where}.podTemplate" if where else "podTemplate"
    names = ", ".join(f"'{one}'" for one in FITTING[where])
    said = refuse(**fields)
    assert said.startswith(
        f"spec.ray.{path}.spec.containers[0]: no container to change is named '{name}'; "
        f"allowed names: {names}"
    )
    assert said.endswith("a container of your own needs an 'image'") == (name == "main")


@pytest.mark.parametrize("where", FITTING)
def test_a_container_with_an_image_is_the_users_own(where: str) -> None:
    read_ray(**place(template_of({"name": "logs", "image": "logs:1"}), where))
    init = template_of({"name": "fetch", "image": "fetch:1"}, kind="initContainers")
    read_ray(**place(init, where))


def test_a_head_can_not_have_a_workers_container() -> None:
    worker = {"name": "ray-worker", "image": "mine:1"}
    assert "allowed names: 'ray-head'" in refuse(head={"podTemplate": template_of(worker)})


def test_kuberay_makes_the_submitters_container_in_a_sidecar() -> None:
    template = template_of({"name": "ray-job-submitter", "env": []})
    assert read_ray(podTemplate=template).pod_template == template
    assert "allowed names: 'ray-head', 'ray-worker'" in refuse(
        podTemplate=template, submissionMode="SidecarMode"
    )


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ({"spec": None}, "podTemplate.spec: must be an object"),
        ({"metadata": []}, "podTemplate.metadata: must be an object"),
        ({"spec": {"containers": "ray-head"}}, "spec.containers: must be a container"),
        (template_of("ray-head"), "spec.containers[0]: must be a container"),
        (template_of({"env": []}), "spec.containers[0]: a container needs a 'name'; allowed names"),
        (
            template_of({"name": "ray-head", "image": "a"}, kind="initContainers"),
            "spec.initContainers[0]: no container to change is named 'ray-head'",
        ),
        (
            template_of({"name": "wait"}, kind="initContainers"),
            "no init container can be changed; a container of your own needs an 'image'",
        ),
        (template_of({"name": "ray-head", "env": "A=1"}), "containers[0].env: must be a list"),
        (template_of({"name": "ray-head", "env": ["A"]}), "env[0]: must be an object"),
        (template_of({"name": "ray-head", "env": [{"value": "1"}]}), "env[0]: needs a 'name'"),
        (template_of({"name": "ray-head", "volumeMounts": [{"name": "a"}]}), "'mountPath'"),
        (template_of({"name": "ray-head", "resources": []}), "resources: must be an object"),
        (
            {"spec": {"nodeSelector": {"a": 1}}},
            "nodeSelector: must be an object whose values are text",
        ),
        ({"spec": {"volumes": [{"emptyDir": {}}]}}, "spec.volumes[0]: needs a 'name'"),
        ({"spec": {"serviceAccountName": 5}}, "serviceAccountName: must be text"),
        (
            {"metadata": {"labels": ["a"]}},
            "metadata.labels: must be an object whose values are text",
        ),
    ],
)
def test_a_template_of_another_shape_is_refused(template: dict[str, Any], said: str) -> None:
    assert said in refuse(podTemplate=template)


@pytest.mark.parametrize(
    "template", [{}, {"spec": {}}, {"spec": {"containers": []}}, {"spec": {"containers": None}}]
)
def test_a_template_may_omit_containers(template: dict[str, Any]) -> None:
    assert read_ray(podTemplate=template).pod_template == template
