"""The operator or its namespaces are removed while a pipeline has an attempt.

The commands of the hooks run on a real API server.
"""

from __future__ import annotations

from typing import Any

import pytest

from chart_cluster import ChartCluster
from helm_program import CHART, RELEASE, Helm
from manifests import of_kind
from strandline_api.names import FINALIZER
from uninstall_player import play_uninstalls

Json = dict[str, Any]
NAMED = (RELEASE, "--namespace", RELEASE)
INSTALL = ("install", *NAMED, "--create-namespace", "--wait=hookOnly", CHART)
UPGRADE = ("upgrade", *NAMED, "--wait=hookOnly", "--timeout=120s", CHART)
UNINSTALL = ("uninstall", *NAMED, "--wait=hookOnly", "--timeout=120s")
DEPLOYMENT = f"apis/apps/v1/namespaces/{RELEASE}/deployments/{RELEASE}"
OTHER = "example.com/audit"


def make_held(cluster: ChartCluster, namespace: str) -> str:
    """Create a pipeline with the operator's finalizer, and return its path."""
    cluster.make_namespace(namespace)
    cluster.wait_for_kinds()
    pipelines = f"apis/strandline.dev/v1alpha1/namespaces/{namespace}/curationpipelines"
    body: Json = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "corpus", "finalizers": [OTHER, FINALIZER]},
        "spec": {"source": {"use": "files"}, "sink": {"use": "jsonl"}},
    }
    cluster.client.ask("POST", pipelines, body)
    return f"{pipelines}/corpus"


def find_finalizers(cluster: ChartCluster, path: str) -> list[str]:
    return list(cluster.client.ask("GET", path)["metadata"].get("finalizers", []))


def test_release_removes_finalizers_with_the_charts_permissions(
    cluster_helm: Helm, clean_cluster: ChartCluster
) -> None:
    cluster_helm.run(*INSTALL)
    path = make_held(clean_cluster, "corpora")
    with play_uninstalls(clean_cluster) as player:
        cluster_helm.run(*UNINSTALL)
    assert find_finalizers(clean_cluster, path) == [OTHER]
    assert player.lines == ["released corpora/corpus: no attempt is running", "exit code 0"]
    for left in (DEPLOYMENT, f"apis/batch/v1/namespaces/{RELEASE}/jobs/{RELEASE}-uninstall"):
        clean_cluster.wait_until_gone(left)


def test_a_stuck_namespace_is_released_by_the_next_removal(
    cluster_helm: Helm, clean_cluster: ChartCluster
) -> None:
    cluster_helm.run(*INSTALL)
    path = make_held(clean_cluster, "corpora")
    patch: Json = {"metadata": {"finalizers": [FINALIZER]}}
    clean_cluster.client.ask("PATCH", path, patch, content="application/merge-patch+json")
    cluster_helm.run(*UNINSTALL, "--no-hooks")
    clean_cluster.client.ask("DELETE", path)
    assert clean_cluster.read(path) is not None
    cluster_helm.run(*INSTALL)
    with play_uninstalls(clean_cluster) as player:
        cluster_helm.run(*UNINSTALL)
    clean_cluster.wait_until_gone(path)
    assert player.lines[0] == "released corpora/corpus, which was being deleted"


def test_refuse_prevents_the_removal(cluster_helm: Helm, clean_cluster: ChartCluster) -> None:
    cluster_helm.run(*INSTALL, "--set", "uninstall.pipelines=refuse")
    path = make_held(clean_cluster, "corpora")
    with play_uninstalls(clean_cluster) as player:
        failed = cluster_helm.attempt(*UNINSTALL)
    assert failed.returncode != 0
    assert player.lines[-1] == "exit code 1"
    assert "1 pipeline has an attempt under way or due: corpora/corpus" in player.lines[0]
    assert FINALIZER in find_finalizers(clean_cluster, path)
    assert clean_cluster.client.ask("GET", DEPLOYMENT)["spec"]["replicas"] == 1


def test_wait_ends_when_the_pipeline_is_released(
    cluster_helm: Helm, clean_cluster: ChartCluster
) -> None:
    values = "uninstall.pipelines=wait,uninstall.timeout=4s"
    cluster_helm.run(*INSTALL, "--set", values)
    path = make_held(clean_cluster, "corpora")
    with play_uninstalls(clean_cluster) as player:
        assert cluster_helm.attempt(*UNINSTALL).returncode != 0
        assert "they did not end within 4 s" in player.lines[-2]
        patch: Json = {"metadata": {"finalizers": []}}
        clean_cluster.client.ask("PATCH", path, patch, content="application/merge-patch+json")
        cluster_helm.run(*UNINSTALL)
    assert player.lines[-2:] == ["no pipeline has an attempt under way or due", "exit code 0"]


def test_only_pipelines_in_watched_namespaces_are_released(
    cluster_helm: Helm, clean_cluster: ChartCluster
) -> None:
    clean_cluster.make_namespace("corpora")
    cluster_helm.run(*INSTALL, "--set", "watchNamespaces={corpora},rbac.readNodes=false")
    own = make_held(clean_cluster, "corpora")
    other = make_held(clean_cluster, "elsewhere")
    with play_uninstalls(clean_cluster) as player:
        cluster_helm.run(*UNINSTALL)
    assert player.lines[-1] == "exit code 0"
    assert find_finalizers(clean_cluster, own) == [OTHER]
    assert FINALIZER in find_finalizers(clean_cluster, other)


BEFORE = [
    ("watchNamespaces={corpora,video},rbac.readNodes=false", "Role"),
    ("rbac.readNodes=false", "ClusterRole"),
]
AFTER = ("--set", "watchNamespaces={video},rbac.readNodes=false")


@pytest.mark.parametrize(("before", "kind"), BEFORE)
def test_an_upgrade_releases_pipelines_of_unwatched_namespaces(
    cluster_helm: Helm, clean_cluster: ChartCluster, before: str, kind: str
) -> None:
    for name in ("corpora", "video"):
        clean_cluster.make_namespace(name)
    cluster_helm.run(*INSTALL, "--set", before)
    left, kept = make_held(clean_cluster, "corpora"), make_held(clean_cluster, "video")
    with play_uninstalls(clean_cluster) as player:
        cluster_helm.run(*UPGRADE, *AFTER)
        assert player.lines == ["released corpora/corpus: no attempt is running", "exit code 0"]
        # A second upgrade has nothing to do.
        cluster_helm.run(*UPGRADE, *AFTER)
    assert len(player.lines) == 2
    assert find_finalizers(clean_cluster, left) == [OTHER]
    assert FINALIZER in find_finalizers(clean_cluster, kept)
    assert clean_cluster.client.ask("GET", DEPLOYMENT)["spec"]["replicas"] == 1
    where = "" if kind == "ClusterRole" else "namespaces/corpora/"
    rights = f"apis/rbac.authorization.k8s.io/v1/{where}{kind.lower()}s/{RELEASE}-former"
    clean_cluster.wait_until_gone(rights)


def test_refuse_prevents_an_upgrade_that_leaves_a_namespace(
    cluster_helm: Helm, clean_cluster: ChartCluster
) -> None:
    for name in ("corpora", "video"):
        clean_cluster.make_namespace(name)
    cluster_helm.run(*INSTALL, "--set", BEFORE[0][0])
    path = make_held(clean_cluster, "corpora")
    with play_uninstalls(clean_cluster) as player:
        failed = cluster_helm.attempt(*UPGRADE, *AFTER, "--set", "uninstall.pipelines=refuse")
    assert failed.returncode != 0
    assert "1 pipeline has an attempt under way or due: corpora/corpus" in player.lines[0]
    assert FINALIZER in find_finalizers(clean_cluster, path)
    deployment = clean_cluster.client.ask("GET", DEPLOYMENT)
    assert "--namespaces=corpora" in str(deployment["spec"]["template"])


def test_a_deleted_namespace_needs_no_hook(cluster_helm: Helm, clean_cluster: ChartCluster) -> None:
    for name in ("passing", "video"):
        clean_cluster.make_namespace(name)
    cluster_helm.run(*INSTALL, "--set", "watchNamespaces={passing,video},rbac.readNodes=false")
    role = f"apis/rbac.authorization.k8s.io/v1/namespaces/passing/roles/{RELEASE}"
    clean_cluster.client.ask("DELETE", role)
    with play_uninstalls(clean_cluster) as player:
        cluster_helm.run(*UPGRADE, *AFTER)
    assert player.lines == []


@pytest.mark.parametrize("kind", ["Job", "Role", "RoleBinding"])
def test_the_hooks_objects_are_hooks_of_helm_and_argo_cd(helm: Helm, kind: str) -> None:
    hooks = [
        manifest
        for manifest in of_kind(helm.render(), kind)
        if manifest["metadata"]["name"].endswith("-uninstall")
    ]
    assert [hook["metadata"]["annotations"]["helm.sh/hook"] for hook in hooks] == ["pre-delete"]
    annotations = hooks[0]["metadata"]["annotations"]
    assert annotations["argocd.argoproj.io/hook"] == "PreDelete"


def test_the_ignore_treatment_makes_no_hook(helm: Helm) -> None:
    manifests = helm.render("--set", "uninstall.pipelines=ignore")
    names = [manifest["metadata"]["name"] for manifest in manifests]
    assert not any(name.endswith("-uninstall") for name in names)


def test_an_unknown_treatment_is_refused(helm: Helm) -> None:
    done = helm.attempt("template", CHART, "--set", "uninstall.pipelines=keep")
    assert done.returncode != 0
    assert "uninstall" in done.stderr
