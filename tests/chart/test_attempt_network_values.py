"""The chart's values for attempts' network policies determine which connections are allowed."""

from __future__ import annotations

import json
from typing import Any

from attempt_pods import list_pods, list_policies, render_attempt
from helm_program import RELEASE, Helm
from manifests import of_kind
from network_rules import Endpoint, is_allowed
from renderings import EVERYTHING, cases, flags_of, parse, read_case, render
from simulated_cluster import SimulatedCluster

DASHBOARD, DRIVER = 8265, 8780
ENABLED = ("--set", "attemptNetworkPolicy.enabled=true")
# Labels of KubeRay's pod, both from its chart and from its manifests.
KUBERAY = {"app.kubernetes.io/component": "kuberay-operator", "app.kubernetes.io/name": "kuberay"}


def make_attempt(manifests: list[dict[str, Any]]) -> SimulatedCluster:
    return render_attempt(parse(flags_of(manifests)).attempt_network)


def find_operator(manifests: list[dict[str, Any]]) -> Endpoint:
    """Return the operator's pod as an endpoint, with all labels of its template."""
    (deployment,) = of_kind(manifests, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    return Endpoint(deployment["metadata"]["namespace"], labels)


@cases
def test_the_installed_operator_reaches_drivers_and_the_test_pod_does_not(
    helm: Helm, case: Any
) -> None:
    manifests = render(helm, case)
    cluster = make_attempt(manifests)
    policies, head = list_policies(cluster), list_pods(cluster)["head"]
    assert is_allowed(policies, find_operator(manifests), head, DRIVER)
    (test,) = of_kind(manifests, "Pod")
    tester = Endpoint(test["metadata"]["namespace"], test["metadata"]["labels"])
    assert not is_allowed(policies, tester, head, DRIVER)
    is_closed = read_case(case).get("attemptNetworkPolicy", {}).get("enabled", False)
    assert is_allowed(policies, tester, head, DASHBOARD) != is_closed


def test_all_ports_may_be_left_open(helm: Helm) -> None:
    cluster = make_attempt(helm.render("--set", "attemptNetworkPolicy.driverPort=false"))
    assert list_policies(cluster) == []


def test_kuberay_is_recognized_by_its_label_in_any_namespace(helm: Helm) -> None:
    cluster = make_attempt(helm.render(*ENABLED))
    policies, head = list_policies(cluster), list_pods(cluster)["head"]
    for namespace in ("default", "kuberay-system"):
        assert is_allowed(policies, Endpoint(namespace, KUBERAY), head, DASHBOARD)
        assert not is_allowed(policies, Endpoint(namespace, KUBERAY), head, DRIVER)
        assert not is_allowed(policies, Endpoint(namespace, {"app": "web"}), head, DASHBOARD)


def test_a_named_kuberay_namespace_excludes_pods_with_its_label_elsewhere(helm: Helm) -> None:
    cluster = make_attempt(render(helm, EVERYTHING))
    policies, head = list_policies(cluster), list_pods(cluster)["head"]
    assert is_allowed(policies, Endpoint("ray-system", KUBERAY), head, DASHBOARD)
    assert not is_allowed(policies, Endpoint("team", KUBERAY), head, DASHBOARD)


def test_other_pods_do_not_count_as_the_operator(helm: Helm) -> None:
    cluster = make_attempt(helm.render(*ENABLED))
    policies, head = list_policies(cluster), list_pods(cluster)["head"]
    assert not is_allowed(policies, Endpoint(RELEASE, {"app": "web"}), head, DRIVER)
    borrowed = Endpoint("team", find_operator(helm.render()).labels)
    assert not is_allowed(policies, borrowed, head, DRIVER)


def test_permission_to_make_policies_is_given_only_if_enabled(helm: Helm) -> None:
    def find_verbs(manifests: list[dict[str, Any]]) -> list[list[str]]:
        rules = [rule for role in of_kind(manifests, "ClusterRole") for rule in role["rules"]]
        return [rule["verbs"] for rule in rules if "networkpolicies" in rule["resources"]]

    assert find_verbs(helm.render(*ENABLED)) == [["get", "create"]]
    assert find_verbs(helm.render()) == [["get", "create"]]
    assert find_verbs(helm.render("--set", "attemptNetworkPolicy.driverPort=false")) == []


RESTRICTED = (*ENABLED, "--set", "attemptNetworkPolicy.restrictEgress=true")
CLUSTER_DNS = Endpoint("kube-system", {"k8s-app": "kube-dns"})
NODE_CACHE = Endpoint(ip="169.254.20.10")


def list_answering(helm: Helm, *words: str) -> list[Endpoint]:
    """Return the candidates among DNS servers that the head may reach."""
    cluster = make_attempt(helm.render(*RESTRICTED, *words))
    policies, head = list_policies(cluster), list_pods(cluster)["head"]
    asked = (CLUSTER_DNS, NODE_CACHE, Endpoint(ip="192.0.2.7"))
    return [server for server in asked if is_allowed(policies, head, server, 53, "UDP")]


def test_restricted_egress_allows_only_the_clusters_dns(helm: Helm) -> None:
    assert list_answering(helm) == [CLUSTER_DNS]
    # An upgrade with `--reuse-values` from a release without this value passes null.
    assert list_answering(helm, "--set", "attemptNetworkPolicy.dns=null") == [CLUSTER_DNS]


def test_other_dns_servers_are_set_in_the_values(helm: Helm) -> None:
    peers, ports = [{"ipBlock": {"cidr": "169.254.20.10/32"}}], [{"protocol": "UDP", "port": 53}]
    rules = json.dumps([{"to": peers, "ports": ports}])
    assert list_answering(helm, "--set-json", f"attemptNetworkPolicy.dns={rules}") == [NODE_CACHE]
    assert list_answering(helm, "--set-json", "attemptNetworkPolicy.dns=[]") == []
