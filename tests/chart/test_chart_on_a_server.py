"""A real API server accepts the chart, which is installed, upgraded, and removed.

The cluster has no nodes; tests on a real node cover the chart's pods.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart_cluster import DEFINITIONS, ChartCluster
from helm_program import CHART, RELEASE, Helm
from kube_client import Refusal
from manifests import list_pods, name_of, of_kind
from renderings import cases, render
from strandline_api.names import FINALIZER

Json = dict[str, Any]
NAMED = (RELEASE, "--namespace", RELEASE)
GROUP = "apis/strandline.dev/v1alpha1/namespaces"
# Helm waits for no pods, because there are no nodes. Another test, test_uninstall_hook.py,
# simulates the pod of a hook.
INSTALL = ("install", *NAMED, "--create-namespace", "--wait=hookOnly")
UPGRADE = ("upgrade", *NAMED, "--wait=hookOnly")
UNINSTALL = ("uninstall", *NAMED, "--wait=hookOnly", "--no-hooks")
DEFINITION = f"{DEFINITIONS}/curationpipelines.strandline.dev"


def make_namespaces(cluster: ChartCluster) -> None:
    for namespace in (RELEASE, "corpora", "images"):
        cluster.make_namespace(namespace)


def list_installed(helm: Helm) -> list[Json]:
    """Return the manifests of a release that Helm has stored."""
    text = helm.run("get", "manifest", *NAMED)
    return [one for one in yaml.safe_load_all(text) if one]


@cases
def test_every_manifest_is_accepted(helm: Helm, chart_cluster: ChartCluster, case: Path) -> None:
    make_namespaces(chart_cluster)
    manifests = helm.render("--values", case)
    assert len(manifests) >= 5
    for manifest in manifests:
        taken = chart_cluster.try_out(manifest)
        assert taken["metadata"]["name"] == manifest["metadata"]["name"], name_of(manifest)


@cases
def test_every_pod_is_admitted_under_the_restricted_profile(
    helm: Helm, chart_cluster: ChartCluster, case: Path
) -> None:
    namespace = chart_cluster.make_namespace("restricted")
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    chart_cluster.client.patch("Namespace", namespace, label)
    metadata = {"name": "pod", "namespace": namespace}
    for spec in list_pods(render(helm, case)):
        spec = {**spec, "priorityClassName": ""}  # noqa: PLW2901 - quotas guard the highest ones
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        chart_cluster.try_out(pod)
    spec["securityContext"] = {}
    with pytest.raises(Refusal, match="violates PodSecurity"):
        chart_cluster.try_out(pod)


@cases
def test_each_case_is_installed_and_removed(
    cluster_helm: Helm, clean_cluster: ChartCluster, case: Path
) -> None:
    make_namespaces(clean_cluster)
    cluster_helm.run(*INSTALL, CHART, "--values", case)
    installed = list_installed(cluster_helm)
    paths = {clean_cluster.find(one): one["kind"] for one in installed}
    assert all(map(clean_cluster.read, paths))

    cluster_helm.run(*UNINSTALL)
    for path, kind in paths.items():
        if kind == "CustomResourceDefinition":
            assert clean_cluster.stands(path)
        else:
            clean_cluster.wait_until_gone(path)


def make_older(folder: Path) -> Path:
    """Write an older version of the chart, whose CRD lacks a field."""
    chart = folder / "older"
    shutil.copytree(CHART, chart)
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    about |= {"version": "0.0.1", "appVersion": "0.0.1"}
    (chart / "Chart.yaml").write_text(yaml.safe_dump(about), encoding="utf-8")
    (definition,) = (chart / "templates" / "crds").glob("*_curationpipelines.yaml")
    text = definition.read_text(encoding="utf-8")
    assert "attemptHistoryLimit:" in text
    definition.write_text(text.replace("attemptHistoryLimit:", "historyLimit:"), encoding="utf-8")
    return chart


def make_run(cluster: ChartCluster) -> list[str]:
    """Create a pipeline with a running attempt, as an operator would, and return both paths."""
    cluster.wait_for_kinds()
    pipeline: Json = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "corpus", "finalizers": [FINALIZER]},
        "spec": {"source": {"use": "files"}, "sink": {"use": "jsonl"}},
    }
    attempt: Json = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationAttempt",
        "metadata": {"name": "corpus-1"},
        "spec": {
            "pipeline": "corpus",
            "pipelineUid": "-",
            "run": "first",
            "number": 1,
            "trigger": "Run",
        },
    }
    running = {"phase": "Running", "progress": {"total": 10, "finished": 4}}
    paths = []
    for body in (pipeline, attempt):
        plural = f"{GROUP}/{RELEASE}/{body['kind'].lower()}s"
        cluster.client.ask("POST", plural, body)
        paths.append(f"{plural}/{body['metadata']['name']}")
        found = cluster.client.ask("GET", paths[-1])
        cluster.client.ask("PUT", f"{paths[-1]}/status", {**found, "status": running})
    return paths


def test_an_upgrade_installs_new_definitions_without_changing_a_run(
    cluster_helm: Helm, clean_cluster: ChartCluster, tmp_path: Path
) -> None:
    cluster_helm.run(*INSTALL, make_older(tmp_path))
    older = clean_cluster.client.ask("GET", DEFINITION)
    paths = make_run(clean_cluster)
    before = [clean_cluster.client.ask("GET", path) for path in paths]
    assert "attemptHistoryLimit" not in list_fields(older)

    cluster_helm.run(*UPGRADE, CHART)
    newer = clean_cluster.client.ask("GET", DEFINITION)
    assert newer["metadata"]["uid"] == older["metadata"]["uid"]
    assert "attemptHistoryLimit" in list_fields(newer)
    check_unchanged(before, [clean_cluster.client.ask("GET", path) for path in paths])
    (deployment,) = of_kind(list_installed(cluster_helm), "Deployment")
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image.rpartition(":")[2] != "0.0.1"

    cluster_helm.run(*UNINSTALL)
    assert clean_cluster.stands(DEFINITION)
    check_unchanged(before, [clean_cluster.client.ask("GET", path) for path in paths])
    cluster_helm.run(*INSTALL, CHART)
    check_unchanged(before, [clean_cluster.client.ask("GET", path) for path in paths])


def list_fields(definition: Json) -> list[str]:
    """Return the names of a CRD's spec fields."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return list(schema["properties"]["spec"]["properties"])


def check_unchanged(before: list[Json], after: list[Json]) -> None:
    """Check that the objects were not written, except for defaults that the API server adds."""
    for one, other in zip(before, after, strict=True):
        for part in ("uid", "resourceVersion", "generation"):
            assert one["metadata"][part] == other["metadata"][part]
        assert one["status"] == other["status"]
        assert "deletionTimestamp" not in other["metadata"]


def test_applied_definitions_are_taken_over_on_request(
    cluster_helm: Helm, clean_cluster: ChartCluster
) -> None:
    for path in sorted((CHART.parents[1] / "crds").glob("*.yaml")):
        name = path.stem.removeprefix("strandline.dev_") + ".strandline.dev"
        clean_cluster.client.apply(path.read_bytes(), "CustomResourceDefinition", name)
    done = cluster_helm.attempt(*INSTALL, CHART)
    assert done.returncode != 0
    assert "CustomResourceDefinition" in done.stderr
    cluster_helm.attempt(*UNINSTALL)
    cluster_helm.run(*INSTALL, CHART, "--take-ownership")
    owner = clean_cluster.client.ask("GET", DEFINITION)["metadata"]["annotations"]
    assert owner["meta.helm.sh/release-name"] == RELEASE


def test_the_chart_can_omit_the_definitions(
    cluster_helm: Helm, clean_cluster: ChartCluster
) -> None:
    cluster_helm.run(*INSTALL, CHART, "--set", "crds.install=false")
    assert clean_cluster.read(DEFINITION) is None
    kinds = {one["kind"] for one in list_installed(cluster_helm)}
    assert "CustomResourceDefinition" not in kinds


def test_switching_the_definitions_off_removes_none(
    cluster_helm: Helm, clean_cluster: ChartCluster
) -> None:
    cluster_helm.run(*INSTALL, CHART)
    paths = make_run(clean_cluster)
    cluster_helm.run(*UPGRADE, CHART, "--set", "crds.install=false")
    assert all(map(clean_cluster.stands, [DEFINITION, *paths]))
