"""The NetworkPolicies of an attempt, checked for each pair of pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from attempt_pods import NAMESPACE, list_pods, list_policies, render_attempt
from network_rules import NAMESPACE_LABEL, Endpoint, is_allowed
from simulated_cluster import SimulatedCluster
from strandline_api.names import ATTEMPT_LABEL, PIPELINE_UID_LABEL, ROLE_LABEL
from strandline_operator.model.network import AttemptNetwork
from strandline_operator.model.plan import Create, Resource
from strandline_operator.model.view import Refusal

GCS, DASHBOARD, CLIENT, AGENT, DRIVER, DRAWN = 6379, 8265, 10001, 52365, 8780, 31234
PORTS = (GCS, DASHBOARD, CLIENT, AGENT, DRIVER, DRAWN)
OPERATOR = Endpoint("strandline", {"app.kubernetes.io/component": "operator"})
KUBERAY = Endpoint("ray-system", {"app.kubernetes.io/component": "kuberay-operator"})
PROMETHEUS = Endpoint("monitoring", {"app": "prometheus"})
OUTSIDE = Endpoint(ip="192.0.2.7")


def select(pod: Endpoint) -> dict[str, Any]:
    return {
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: pod.namespace}},
        "podSelector": {"matchLabels": dict(pod.labels)},
    }


NETWORK = AttemptNetwork(operator=(select(OPERATOR),), kuberay=(select(KUBERAY),))
CLUSTER = render_attempt(NETWORK)
OTHER = render_attempt(NETWORK, "images")
POLICIES = [*list_policies(CLUSTER), *list_policies(OTHER)]
OWN = list_pods(CLUSTER)
STRANGERS = {
    "head of another pipeline": list_pods(OTHER)["head"],
    "worker of another pipeline": list_pods(OTHER)["worker"],
    "submitter of another pipeline": list_pods(OTHER)["submitter"],
    "pod of the same namespace": Endpoint(NAMESPACE, {"app": "notebook"}),
    "head in another namespace": Endpoint("elsewhere", OWN["head"].labels),
    "pod with the operator's labels": Endpoint(NAMESPACE, OPERATOR.labels),
    "pod with KubeRay's labels": Endpoint(NAMESPACE, KUBERAY.labels),
    "Prometheus": PROMETHEUS,
    "outside": OUTSIDE,
}


def list_open(source: Endpoint, target: Endpoint, policies: list[Any] = POLICIES) -> list[int]:
    return [port for port in PORTS if is_allowed(policies, source, target, port)]


@pytest.mark.parametrize("source", ["head", "worker"])
@pytest.mark.parametrize("target", ["head", "worker"])
def test_nodes_of_a_cluster_reach_each_other_at_every_port(source: str, target: str) -> None:
    assert list_open(OWN[source], OWN[target]) == list(PORTS)


@pytest.mark.parametrize("target", ["head", "worker"])
@pytest.mark.parametrize(
    ("source", "opened"),
    [(OWN["submitter"], [DASHBOARD]), (KUBERAY, [DASHBOARD]), (OPERATOR, [DRIVER])],
    ids=["submitter", "kuberay", "operator"],
)
def test_a_client_reaches_only_the_ports_it_needs(
    source: Endpoint, opened: list[int], target: str
) -> None:
    assert list_open(source, OWN[target]) == opened


@pytest.mark.parametrize("target", sorted(OWN))
@pytest.mark.parametrize("stranger", sorted(STRANGERS))
def test_strangers_reach_no_port(stranger: str, target: str) -> None:
    assert list_open(STRANGERS[stranger], OWN[target]) == []


@pytest.mark.parametrize("target", ["head", "worker"])
def test_a_policy_may_close_only_the_drivers_port(target: str) -> None:
    cluster = render_attempt(NETWORK.model_copy(update={"closes": "driver"}))
    policies, own = list_policies(cluster), list_pods(cluster)
    others = [port for port in PORTS if port != DRIVER]
    for stranger in (*STRANGERS.values(), KUBERAY, own["submitter"]):
        assert list_open(stranger, own[target], policies) == others
    assert list_open(own["worker"], own[target], policies) == list(PORTS)
    assert list_open(OPERATOR, own[target], policies) == list(PORTS)


def test_without_a_policy_every_pod_reaches_the_attempt() -> None:
    cluster = render_attempt(None)
    assert list_policies(cluster) == []
    notebook = STRANGERS["pod of the same namespace"]
    assert list_open(notebook, list_pods(cluster)["head"], []) == list(PORTS)


@given(
    namespace=st.sampled_from([NAMESPACE, "elsewhere", "strandline", "ray-system"]),
    labels=st.fixed_dictionaries(
        {},
        optional={
            PIPELINE_UID_LABEL: st.sampled_from(["uid-of-corpus", "uid-of-images", ""]),
            ATTEMPT_LABEL: st.sampled_from(["1", "2"]),
            ROLE_LABEL: st.sampled_from(["head", "worker", "submitter", "Head"]),
            "app.kubernetes.io/component": st.sampled_from(["operator", "kuberay-operator"]),
        },
    ),
    port=st.sampled_from(PORTS),
)
def test_law_the_attempts_uid_and_number_open_ray_and_no_other_label_does(
    namespace: str, labels: dict[str, str], port: int
) -> None:
    is_own = (
        namespace == NAMESPACE
        and labels.get(PIPELINE_UID_LABEL) == "uid-of-corpus"
        and labels.get(ATTEMPT_LABEL) == "1"
    )
    role, component = labels.get(ROLE_LABEL), labels.get("app.kubernetes.io/component")
    is_let_in = (
        (is_own and role in {"head", "worker"})
        or (is_own and role == "submitter" and port == DASHBOARD)
        or (namespace == "strandline" and component == "operator" and port == DRIVER)
        or (namespace == "ray-system" and component == "kuberay-operator" and port == DASHBOARD)
    )
    stranger = Endpoint(namespace, labels)
    assert is_allowed(list_policies(CLUSTER), stranger, OWN["head"], port) == is_let_in


def test_a_users_template_can_not_put_a_pod_into_another_attempt() -> None:
    cluster = SimulatedCluster(limits=CLUSTER.limits)
    labels = dict(OWN["head"].labels)
    cluster.edit(
        ray={"podTemplate": {"metadata": {"labels": labels}}, "workerGroups": [{"name": "cpu"}]}
    )
    cluster.settle()
    for pod in list_pods(cluster).values():
        assert list_open(pod, OWN["head"]) == []


def test_empty_peers_open_nothing() -> None:
    policies = list_policies(render_attempt(AttemptNetwork()))
    for stranger in (*STRANGERS.values(), OPERATOR, KUBERAY):
        assert list_open(stranger, OWN["head"], policies) == []
    assert list_open(OWN["submitter"], OWN["head"], policies) == [DASHBOARD]


def test_peers_added_by_the_installation_are_admitted() -> None:
    rule = {"from": [select(PROMETHEUS)], "ports": [{"port": DRIVER}]}
    network = NETWORK.model_copy(update={"ingress": (rule,)})
    policies = list_policies(render_attempt(network))
    assert list_open(PROMETHEUS, OWN["head"], policies) == [DRIVER]
    assert list_open(STRANGERS["pod of the same namespace"], OWN["head"], policies) == []


def test_egress_is_open_unless_restricted() -> None:
    for pod in OWN.values():
        assert is_allowed(POLICIES, pod, OUTSIDE, 443)
        assert is_allowed(POLICIES, pod, STRANGERS["pod of the same namespace"], 9000)


def test_restricted_pods_reach_each_other_dns_and_listed_peers() -> None:
    store = {"to": [{"ipBlock": {"cidr": "203.0.113.0/24"}}], "ports": [{"port": 443}]}
    network = NETWORK.model_copy(update={"egress": (store,)})
    policies = list_policies(render_attempt(network))
    resolver = Endpoint("kube-system", {"k8s-app": "kube-dns"})
    for pod in OWN.values():
        assert is_allowed(policies, pod, Endpoint(ip="203.0.113.9"), 443)
        assert is_allowed(policies, pod, resolver, 53, "UDP")
        assert not is_allowed(policies, pod, OUTSIDE, 443)
        assert not is_allowed(policies, pod, resolver, 9153)
    assert list_open(OWN["worker"], OWN["head"], policies) == list(PORTS)
    assert list_open(OWN["submitter"], OWN["head"], policies) == [DASHBOARD]


def test_the_policy_exists_before_the_pods_and_is_deleted_with_the_attempt() -> None:
    made = [
        action.resource
        for plan in CLUSTER.plans
        for action in plan.actions
        if isinstance(action, Create)
    ]
    assert made[-2:] == [Resource.NETWORK_POLICY, Resource.RAYJOB]
    (policy,) = list_policies(CLUSTER)
    (owner,) = policy["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("CurationAttempt", "corpus-1")


@pytest.mark.parametrize("cut_at", range(1, CLUSTER.calls + 1))
def test_an_operator_killed_before_any_call_makes_one_policy_and_one_rayjob(cut_at: int) -> None:
    cluster = SimulatedCluster(limits=CLUSTER.limits, cut_at=cut_at)
    cluster.settle()
    cluster.settle()
    assert cluster.cuts == 1
    assert len(list_policies(cluster)) == len(cluster.list_of(Resource.RAYJOB)) == 1


def test_a_rejected_policy_prevents_the_attempt() -> None:
    cluster = SimulatedCluster(limits=CLUSTER.limits)
    message = 'networkpolicies is forbidden: User "operator" cannot create resource'
    refusal = Refusal(Resource.NETWORK_POLICY, "corpus-1", 403, message)
    cluster.refused[Resource.NETWORK_POLICY] = refusal
    cluster.settle()
    assert cluster.list_of(Resource.RAYJOB) == []
    assert message in str(cluster.status.to_json())


def test_everything_is_made_in_the_pipelines_namespace() -> None:
    manifests = [
        action.manifest
        for plan in CLUSTER.plans
        for action in plan.actions
        if isinstance(action, Create)
    ]
    kinds = {manifest["kind"] for manifest in manifests}
    assert kinds >= {"PersistentVolumeClaim", "ConfigMap", "NetworkPolicy", "RayJob"}
    assert {manifest["metadata"]["namespace"] for manifest in manifests} == {NAMESPACE}


def test_the_next_attempt_has_a_separate_policy() -> None:
    cluster = render_attempt(NETWORK)
    cluster.bind_claim()
    cluster.start_rayjob()
    cluster.settle()
    cluster.fail_attempt()
    cluster.advance(120.0)
    first, second = list_policies(cluster)
    assert first["spec"]["podSelector"] != second["spec"]["podSelector"]
    assert list_open(OWN["head"], list_pods(cluster)["head"], [first, second]) == []


def test_both_policies_match_their_golden_files(golden: Callable[[str, str], None]) -> None:
    policies = list_policies(render_attempt(NETWORK.model_copy(update={"egress": ()})))
    golden("operator/network-policy.yaml", yaml.safe_dump_all(policies, sort_keys=False))
