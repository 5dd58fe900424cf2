"""The operator runs with exactly the chart's permissions on a real API server.

KubeRay is simulated. The permissions must suffice for a whole run, and each verb must be used.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from chart_cluster import ChartCluster
from helm_program import CHART, RELEASE, Helm
from kube_client import KubeClient, Refusal, ServerStage
from kuberay_player import Troupe
from manifests import list_pods, of_kind
from operator_process import OperatorProcess, run_operator
from waiting import wait_until

Json = dict[str, Any]
QUICK = ",".join(
    f"settings.{name}={seconds}s"
    for name, seconds in {"settle": 1, "outcome": 1, "pullInterval": 1, "resync": 2}.items()
)
# Values that enable all optional requests. The check has a short timeout, because this server has
# no controller that creates a Job's pod.
EXTRAS = "attemptNetworkPolicy.enabled=true,preflight.enabled=true,preflight.longest=1s"
VALUES = ("--set", f"{QUICK},{EXTRAS}")
RECORDINGS = ("s-k-head-deleted", "s-k-success", "s-k-success")
VERBS = {"POST": "create", "PUT": "update"}
REQUEST = re.compile(
    r'^strandline_api_requests_total\{code="(\d+)",resource="([\w.]+)",verb="(\w+)"\} '
)
# Requests that this run does not send, and the situation in which the operator sends them.
RARE = {
    ("get", "nodes"): "pods of a node that does not answer, or no watch of nodes",
    ("get", "curationattempts"): "an attempt's name is taken already",
    ("get", "rayjobs"): "a RayJob's name is taken already",
    ("patch", "persistentvolumeclaims"): "somebody asks for a larger claim",
    ("get", "networkpolicies"): "the operator was killed after it had made one",
    ("get", "poddisruptionbudgets"): "the operator was killed after it had made one",
    ("list", "workloads"): "Kueue holds an attempt in a queue",
    ("get", "localqueues"): "Kueue has created no Workload for an attempt",
    ("update", "curationpipelines/finalizers"): "the cluster checks who may own objects",
    ("update", "curationattempts/finalizers"): "the cluster checks who may own objects",
}
# Requests that this run sends only if pods or their owners appear or disappear slowly, or if late
# watches make the operator read the pipeline from the server.
AT_TIMES = {("list", "events"), ("delete", "rayclusters"), ("get", "curationpipelines")}
# Requests to subresources, which the metrics count under the resource.
PARTS = {("get", "pods"): ("get", "pods/log"), ("update", "curationpipelines"): (
    "update", "curationpipelines/status"), ("update", "curationattempts"): (
    "update", "curationattempts/status")}  # fmt: skip


def make_pipeline(namespace: str) -> Json:
    return {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "corpus", "namespace": namespace},
        "spec": {
            "source": {"use": "files"},
            "sink": {"use": "jsonl"},
            "retry": {"jitter": "none", "delay": "1s"},
            "attemptHistoryLimit": 1,
            "ray": {
                "workerGroups": [{"name": "cpu", "resources": {"memory": "8Gi"}}],
                "voluntaryDisruptions": {"podDisruptionBudget": True},
            },
        },
    }


@contextmanager
def run_installed(
    helm: Helm, cluster: ChartCluster, folder: Path, *values: str
) -> Iterator[OperatorProcess]:
    """Install the chart, and run the operator with the account and the flags of its pod."""
    place = (RELEASE, "--namespace", RELEASE, "--create-namespace", "--wait=hookOnly")
    values = (*VALUES, *values)
    helm.run("install", *place, CHART, *values)
    with run_here(helm, cluster, folder, *values) as operator:
        yield operator


@contextmanager
def run_here(
    helm: Helm, cluster: ChartCluster, folder: Path, *values: str
) -> Iterator[OperatorProcess]:
    """Run the operator of an installed chart with the account and the flags of its pod."""
    cluster.wait_for_kinds()
    manifests = helm.render(*values)
    (account,) = of_kind(manifests, "ServiceAccount")
    (pod,) = list_pods(of_kind(manifests, "Deployment"))
    flags = [
        flag
        for flag in pod["containers"][0]["args"]
        if not flag.startswith(("--metrics-port", "--liveness-port"))
    ]
    name, namespace = account["metadata"]["name"], account["metadata"]["namespace"]
    kubeconfig = cluster.log_in(namespace, name)
    with run_operator(kubeconfig, folder, *flags) as operator:
        yield operator


def play(operator: OperatorProcess, cluster: ChartCluster, namespace: str) -> None:
    """Simulate a run that fails, is retried, and completes; then delete a running pipeline."""
    troupe = Troupe(ServerStage(cluster.client), namespace, RECORDINGS, begin=datetime.now(UTC))
    pipelines = f"apis/strandline.dev/v1alpha1/namespaces/{namespace}/curationpipelines"
    path = f"{pipelines}/corpus"
    cluster.client.ask("POST", pipelines, make_pipeline(namespace))

    def is_so(phase: str) -> bool:
        asyncio.run(troupe.tick())
        found = cluster.read(path)
        return phase == ("gone" if found is None else found.get("status", {}).get("phase"))

    operator.wait_for(lambda: is_so("Succeeded"))
    patch = {"spec": {"runId": "second"}}
    cluster.client.ask("PATCH", path, patch, content="application/merge-patch+json")
    operator.wait_for(lambda: is_so("Running"))
    cluster.client.ask("DELETE", path)
    operator.wait_for(lambda: is_so("gone"))


def list_requests(operator: OperatorProcess) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return all requests by verb and resource, and those rejected for missing permissions."""
    used, refused = set(), set()
    for line in operator.ask("metrics")[1].splitlines():
        found = REQUEST.match(line)
        if found:
            verb, resource = found[3], found[2].partition(".")[0]
            one = (VERBS.get(verb, verb.lower()), resource)
            used.add(PARTS.get(one, one))
            if found[1] == "403":
                refused.add(one)
    return used, refused


def list_rights(manifests: list[Json]) -> set[tuple[str, str]]:
    """Return the verbs and resources that the operator's roles allow in the chart."""
    return {
        (verb, resource)
        for role in of_kind(manifests, "Role", "ClusterRole")
        if not any("aggregate" in label for label in role["metadata"]["labels"])
        # Skip the role of the removal hook, which exists only as long as the hook.
        and "annotations" not in role["metadata"]
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }


def test_a_whole_run_uses_exactly_the_charts_permissions(
    cluster_helm: Helm, clean_cluster: ChartCluster, tmp_path: Path
) -> None:
    namespace = clean_cluster.make_namespace("wide")
    with run_installed(cluster_helm, clean_cluster, tmp_path) as operator:
        play(operator, clean_cluster, namespace)
        used, refused = list_requests(operator)
        answer = ask_test_script(cluster_helm, operator)
        assert operator.stop() == 0
    assert refused == set()
    # Ignore watches, which are counted only when they end, after minutes.
    given = list_rights(cluster_helm.render(*VALUES))
    unused = {right for right in given - used if right[0] != "watch"}
    assert unused - AT_TIMES == RARE.keys()
    assert not [line for line in operator.lines if line["level"] in {"WARNING", "ERROR"}]
    assert answer == (0, "all pages answer\n")


def ask_test_script(helm: Helm, operator: OperatorProcess) -> tuple[int, str]:
    """Run the script of `helm test` against the operator's process."""
    (pod,) = list_pods(of_kind(helm.render(), "Pod"))
    script, *addresses = pod["containers"][0]["args"]
    here = [
        f"http://127.0.0.1:{operator.ports[address.rpartition('/')[2]]}/{address.rpartition('/')[2]}"
        for address in addresses
    ]
    command = [sys.executable, "-c", script, *here]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_the_operator_has_permissions_only_in_its_namespaces(
    cluster_helm: Helm, clean_cluster: ChartCluster, tmp_path: Path
) -> None:
    corpora = clean_cluster.make_namespace("corpora")
    elsewhere = clean_cluster.make_namespace("elsewhere")
    values = ("--set", f"watchNamespaces={{{corpora}}}", "--set", "rbac.readNodes=false")
    with run_installed(cluster_helm, clean_cluster, tmp_path, *values) as operator:
        play(operator, clean_cluster, corpora)
        _, refused = list_requests(operator)
        assert operator.stop() == 0
    assert refused == set()
    account = KubeClient(clean_cluster.log_in(RELEASE, RELEASE))
    path = "apis/strandline.dev/v1alpha1/namespaces/{}/curationpipelines"
    account.ask("GET", path.format(corpora))
    for place in (path.format(elsewhere), f"api/v1/namespaces/{elsewhere}/pods", "api/v1/nodes/n"):
        with pytest.raises(Refusal) as told:
            account.ask("GET", place)
        assert told.value.status == 403
    account.close()


def test_a_namespace_without_its_binding_delays_no_other(
    cluster_helm: Helm, clean_cluster: ChartCluster, tmp_path: Path
) -> None:
    corpora = clean_cluster.make_namespace("bound")
    unbound = clean_cluster.make_namespace("unbound")
    values = ("--set", f"watchNamespaces={{{unbound},{corpora}}}", "--set", "rbac.readNodes=false")
    place = (RELEASE, "--namespace", RELEASE, "--create-namespace", "--wait=hookOnly")
    cluster_helm.run("install", *place, CHART, *VALUES, *values)
    binding = f"apis/rbac.authorization.k8s.io/v1/namespaces/{unbound}/rolebindings/{RELEASE}"
    clean_cluster.client.ask("DELETE", binding)
    with run_here(cluster_helm, clean_cluster, tmp_path, *VALUES, *values) as operator:
        play(operator, clean_cluster, corpora)
        gauge = f'strandline_namespace_refused{{watched_namespace="{unbound}"}} 1.0'
        assert gauge in operator.ask("metrics")[1]
        assert operator.ask("healthz")[0] == 200
        assert operator.stop() == 0
    events = clean_cluster.read(f"api/v1/namespaces/{RELEASE}/events") or {}
    told = [event for event in events["items"] if event["reason"] == "NamespaceRefused"]
    assert [event["involvedObject"]["name"] for event in told] == [RELEASE]


@pytest.mark.parametrize(
    ("role", "allowed", "refused"),
    [
        ("view", [("GET", "curationpipelines"), ("GET", "curationattempts")],
         [("POST", "curationpipelines")]),
        ("edit", [("GET", "curationattempts"), ("POST", "curationpipelines")],
         [("POST", "curationattempts")]),
    ],
)  # fmt: skip
def test_users_who_may_view_or_edit_may_view_or_edit_pipelines(
    cluster_helm: Helm,
    clean_cluster: ChartCluster,
    role: str,
    allowed: list[tuple[str, str]],
    refused: list[tuple[str, str]],
) -> None:
    namespace = clean_cluster.make_namespace(f"users-{role}")
    place = (RELEASE, "--namespace", RELEASE, "--create-namespace", "--wait=hookOnly")
    cluster_helm.run("install", *place, CHART)
    clean_cluster.wait_for_kinds()
    user = clean_cluster.make_user(namespace, role)
    pipeline = make_pipeline(namespace)
    root = f"apis/strandline.dev/v1alpha1/namespaces/{namespace}"

    def judge(method: str, plural: str) -> int:
        try:
            body = pipeline if method == "POST" else None
            user.ask(method, f"{root}/{plural}", body, query={"dryRun": "All"} if body else {})
        except Refusal as refusal:
            return refusal.status
        return 200

    wait_until(lambda: judge(*allowed[0]) == 200)  # roles are aggregated in the background
    assert [judge(*one) for one in allowed] == [200] * len(allowed)
    assert [judge(*one) for one in refused] == [403] * len(refused)
    user.close()
