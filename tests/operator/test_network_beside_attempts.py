"""Network access of a pipeline's pods outside attempts: the preflight check and the commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from attempt_pods import NAMESPACE, list_pods, list_policies
from network_rules import Endpoint, is_allowed
from simulated_cluster import SimulatedCluster
from strandline.cli.cluster.job import JobOrder, render_job
from strandline.cli.cluster.objects import read_cluster_pipeline
from strandline.cli.cluster.placement import JobPlacement
from strandline_api.names import NETWORK_LABEL, PIPELINE_UID_LABEL
from strandline_api.spec.pod_paths import COMMAND_METADATA, HEAD_TEMPLATE
from strandline_api.status.preflight import PreflightVerdict
from strandline_api.status.reasons import Reason
from strandline_operator.model.limits import Limits
from strandline_operator.model.network import AttemptNetwork
from strandline_operator.model.plan import Create, Resource
from strandline_operator.model.view import Refusal

STORE: dict[str, Any] = {
    "to": [{"ipBlock": {"cidr": "203.0.113.0/24"}}],
    "ports": [{"port": 443}],
}
RESTRICTED = AttemptNetwork(egress=(STORE,))
OPEN = AttemptNetwork()
LISTED, OUTSIDE = Endpoint(ip="203.0.113.9"), Endpoint(ip="192.0.2.7")
METADATA_SERVER = Endpoint(ip="169.254.169.254")
NEIGHBOUR = Endpoint(NAMESPACE, {"app": "notebook"})
CLUSTER_DNS = Endpoint("kube-system", {"k8s-app": "kube-dns"})
NOT_DNS = {
    "outside": OUTSIDE,
    "the cloud's metadata": METADATA_SERVER,
    "neighbour": NEIGHBOUR,
    "DNS's labels elsewhere": Endpoint(NAMESPACE, CLUSTER_DNS.labels),
    "another pod of kube-system": Endpoint("kube-system", {"app": "web"}),
}


def make(
    network: AttemptNetwork | None, name: str = "corpus", *, preflight: bool = True, **spec: Any
) -> SimulatedCluster:
    """Return a pipeline at the start of its check, or of its attempt without a check."""
    cluster = SimulatedCluster(limits=Limits(preflight=preflight, attempt_network=network))
    cluster.pipeline["metadata"] |= {"name": name, "uid": f"uid-of-{name}"}
    cluster.edit(**spec)
    cluster.settle()
    return cluster


def find_check(cluster: SimulatedCluster) -> Endpoint:
    """Return the pod of the check."""
    (job,) = cluster.list_of(Resource.JOB)
    return Endpoint(NAMESPACE, job["spec"]["template"]["metadata"]["labels"])


def pass_check(cluster: SimulatedCluster) -> None:
    ended = {"exitCode": 0, "reason": "Completed", "message": ""}
    state = {"name": "strandline-preflight", "state": {"terminated": ended}}
    status = {"phase": "Succeeded", "containerStatuses": [state]}
    cluster.job_pods = [{"metadata": {"name": "corpus-preflight-x"}, "status": status}]
    cluster.advance(1)


def render_command(cluster: SimulatedCluster) -> dict[str, Any]:
    """Return the Job of a `kubectl strandline` command, from the operator's ConfigMap."""
    (config,) = (
        body for body in cluster.list_of(Resource.CONFIG_MAP) if HEAD_TEMPLATE in body["data"]
    )
    metadata = json.loads(config["data"].get(COMMAND_METADATA, "{}"))
    head = json.loads(config["data"][HEAD_TEMPLATE])
    placement = JobPlacement(node="", writes_ledger=False, writes_output=False)
    pipeline = read_cluster_pipeline({**cluster.pipeline, "status": {"attempt": 1}})
    order = JobOrder("verify", ("strandline",), pipeline, head, placement, metadata=metadata)
    return render_job(order)


def find_command(cluster: SimulatedCluster) -> Endpoint:
    """Return the pod of a command's Job."""
    labels = render_command(cluster)["spec"]["template"]["metadata"]["labels"]
    return Endpoint(NAMESPACE, labels)


def make_check(network: AttemptNetwork | None) -> tuple[list[Any], Endpoint]:
    cluster = make(network)
    return list_policies(cluster), find_check(cluster)


def make_command(network: AttemptNetwork | None) -> tuple[list[Any], Endpoint]:
    cluster = make(network, preflight=False)
    return list_policies(cluster), find_command(cluster)


def make_head(network: AttemptNetwork | None) -> tuple[list[Any], Endpoint]:
    cluster = make(network, preflight=False)
    return list_policies(cluster), list_pods(cluster)["head"]


KINDS = pytest.mark.parametrize("made", [make_check, make_command, make_head])
Made = Callable[[AttemptNetwork | None], tuple[list[Any], Endpoint]]


@KINDS
def test_a_pod_reaches_only_listed_peers(made: Made) -> None:
    policies, pod = made(RESTRICTED)
    assert is_allowed(policies, pod, LISTED, 443)
    for other in (OUTSIDE, METADATA_SERVER, NEIGHBOUR):
        assert not is_allowed(policies, pod, other, 443)
        assert not is_allowed(policies, pod, other, 80)


@KINDS
@pytest.mark.parametrize("protocol", ["UDP", "TCP"])
def test_dns_requests_reach_only_the_clusters_servers(made: Made, protocol: str) -> None:
    policies, pod = made(RESTRICTED)
    assert is_allowed(policies, pod, CLUSTER_DNS, 53, protocol)
    assert not is_allowed(policies, pod, CLUSTER_DNS, 9153, protocol)
    for other in NOT_DNS.values():
        assert not is_allowed(policies, pod, other, 53, protocol)


@KINDS
def test_the_installation_can_choose_the_dns_servers(made: Made) -> None:
    """Clusters may have other DNS servers: another port on OpenShift, or caches on nodes."""
    servers = {
        "to": [{"ipBlock": {"cidr": "169.254.20.10/32"}}],
        "ports": [{"port": 5353, "protocol": "UDP"}],
    }
    policies, pod = made(RESTRICTED.model_copy(update={"dns": (servers,)}))
    assert is_allowed(policies, pod, Endpoint(ip="169.254.20.10"), 5353, "UDP")
    assert not is_allowed(policies, pod, CLUSTER_DNS, 53, "UDP")


@KINDS
def test_egress_is_open_unless_restricted(made: Made) -> None:
    for network in (OPEN, None):
        policies, pod = made(network)
        assert is_allowed(policies, pod, OUTSIDE, 443)


@pytest.mark.parametrize("made", [make_check, make_command])
def test_pods_without_a_server_accept_no_connections(made: Made) -> None:
    policies, pod = made(RESTRICTED)
    assert not is_allowed(policies, NEIGHBOUR, pod, 8265)


@pytest.mark.parametrize("made", [make_check, make_command])
def test_pods_outside_an_attempt_do_not_reach_its_ray(made: Made) -> None:
    _, pod = made(RESTRICTED)
    policies, head = make_head(RESTRICTED)
    assert not is_allowed(policies, pod, head, 8265)


def test_the_policy_exists_before_the_check_and_is_deleted_with_the_pipeline() -> None:
    cluster = make(RESTRICTED)
    actions = [action for plan in cluster.plans for action in plan.actions]
    kinds = [action.resource for action in actions if isinstance(action, Create)]
    assert kinds.index(Resource.NETWORK_POLICY) < kinds.index(Resource.JOB)
    (policy,) = list_policies(cluster)
    (owner,) = policy["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("CurationPipeline", "uid-of-corpus")


def test_one_policy_serves_the_check_and_all_commands() -> None:
    cluster = make(RESTRICTED)
    check = find_check(cluster)
    pass_check(cluster)
    cluster.bind_claim()
    cluster.settle()
    command = find_command(cluster)
    assert command.labels[NETWORK_LABEL] == check.labels[NETWORK_LABEL]
    beside, attempts = list_policies(cluster)
    assert beside["spec"]["podSelector"] != attempts["spec"]["podSelector"]


def test_policies_of_earlier_values_open_nothing_for_new_pods() -> None:
    """Policies are additive and immutable, so an older policy must select only older pods."""
    wide = make(AttemptNetwork(egress=({},)), preflight=False)
    narrow = make(RESTRICTED, preflight=False)
    both = [*list_policies(wide), *list_policies(narrow)]
    assert not is_allowed(both, find_command(narrow), OUTSIDE, 443)
    assert is_allowed(both, find_command(wide), OUTSIDE, 443)


def test_each_pipeline_has_a_separate_policy() -> None:
    """A policy is deleted with its pipeline, so it must not select pods of another pipeline."""
    policies, _ = make_command(RESTRICTED)
    other = find_command(make(RESTRICTED, "images", preflight=False))
    assert is_allowed(policies, other, OUTSIDE, 443)
    assert not is_allowed(list_policies(make(RESTRICTED, "images")), other, OUTSIDE, 443)


def test_a_users_template_can_not_remove_a_pod_from_the_policy() -> None:
    labels = {NETWORK_LABEL: "none"}
    cluster = make(RESTRICTED, ray={"podTemplate": {"metadata": {"labels": labels}}})
    policies = list_policies(cluster)
    assert not is_allowed(policies, find_check(cluster), OUTSIDE, 443)
    pass_check(cluster)
    assert not is_allowed(policies, find_command(cluster), OUTSIDE, 443)


def test_no_operator_mistakes_a_check_or_command_for_an_attempts_pod() -> None:
    for _, pod in (make_check(RESTRICTED), make_command(RESTRICTED)):
        assert PIPELINE_UID_LABEL not in pod.labels


def test_a_rejected_policy_prevents_the_check_and_is_reported() -> None:
    cluster = SimulatedCluster(limits=Limits(preflight=True, attempt_network=RESTRICTED))
    message = "networkpolicies is forbidden: quota exceeded"
    cluster.refused[Resource.NETWORK_POLICY] = Refusal(
        Resource.NETWORK_POLICY, "corpus-network", 403, message
    )
    cluster.settle()
    assert cluster.list_of(Resource.JOB) == []
    assert cluster.list_of(Resource.RAYJOB) == []
    assert cluster.status.preflight is not None
    assert cluster.status.preflight.verdict is PreflightVerdict.UNKNOWN
    assert message in cluster.status.preflight.message
    assert message in str(cluster.status.to_json()["conditions"])
    assert Reason.OBJECT_REFUSED in str(cluster.status.to_json())


@pytest.mark.parametrize("cut_at", range(1, 12))
def test_an_operator_killed_before_any_call_makes_one_policy_and_one_check(cut_at: int) -> None:
    limits = Limits(preflight=True, attempt_network=RESTRICTED)
    cluster = SimulatedCluster(limits=limits, cut_at=cut_at)
    cluster.settle()
    cluster.settle()
    assert len(list_policies(cluster)) == len(cluster.list_of(Resource.JOB)) == 1
