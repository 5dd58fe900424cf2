"""Spot presets place pods on spot nodes, and the head avoids spot nodes by default."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulated_cluster import SimulatedCluster
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import Refusal
from strandline_operator.render.pods.spot import PRESETS, NodeChoice, apply_choice
from test_render import pods_of, render

NO_RAYJOB = Refusal(Resource.RAYJOB, "corpus-1", 0, "not yet")
GROUP = {"name": "cpu", "resources": {"cpu": 4}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# Labels and taints of a spot node, and labels of an on-demand node, for each cloud.
NODES: dict[str, tuple[dict[str, str], str, dict[str, str]]] = {
    "gke": ({"cloud.google.com/gke-spot": "true"}, "cloud.google.com/gke-spot", {}),
    "eks": (
        {"eks.amazonaws.com/capacityType": "SPOT"},
        "",
        {"eks.amazonaws.com/capacityType": "ON_DEMAND"},
    ),
    "karpenter": (
        {"karpenter.sh/capacity-type": "spot"},
        "",
        {"karpenter.sh/capacity-type": "on-demand"},
    ),
    "aks": (
        {"kubernetes.azure.com/scalesetpriority": "spot"},
        "kubernetes.azure.com/scalesetpriority",
        {},
    ),
}


def fits(spec: dict[str, Any], labels: dict[str, str], taint: str = "") -> bool:
    """Return True if a scheduler would place a pod on a node with these labels and this taint."""
    selector = spec.get("nodeSelector", {})
    affinity = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED, {})
    terms = affinity.get("nodeSelectorTerms", [{"matchExpressions": []}])
    tolerated = {one["key"] for one in spec.get("tolerations", [])}
    return (
        all(labels.get(name) == value for name, value in selector.items())
        and any(all(meets(one, labels) for one in term["matchExpressions"]) for term in terms)
        and (not taint or taint in tolerated)
    )


def meets(expression: dict[str, Any], labels: dict[str, str]) -> bool:
    value = labels.get(expression["key"])
    return {
        "DoesNotExist": value is None,
        "Exists": value is not None,
        "NotIn": value not in expression.get("values", []),
        "In": value in expression.get("values", []),
    }[expression["operator"]]


def render_spot(on_demand: tuple[str, ...] = (), **ray: Any) -> dict[str, dict[str, Any]]:
    """Return the pod specs by role, with the given fallbacks to on-demand nodes."""
    cluster = SimulatedCluster()
    cluster.edit(ray=ray)
    cluster.refused[Resource.RAYJOB] = NO_RAYJOB
    cluster.settle()
    body, _ = cluster.attempts["corpus-1"]
    body["spec"]["onDemand"] = list(on_demand)
    cluster.refused.clear()
    cluster.advance(30.0)
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    return {name: pod["spec"] for name, pod in pods_of(rayjob).items()}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_group_runs_on_spot_nodes_and_the_head_does_not(preset: str) -> None:
    spot, taint, regular = NODES[preset]
    pods = render_spot(workerGroups=[GROUP | {"spot": {"preset": preset}}])
    assert fits(pods["cpu"], spot, taint)
    assert not fits(pods["cpu"], regular)
    for name in ("head", "submitter"):
        assert fits(pods[name], regular)
        # The pod also fits a node without labels of any cloud.
        assert fits(pods[name], {})
        assert not fits(pods[name], spot, taint)
        assert not fits(pods[name], spot)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_head_is_on_spot_nodes_if_requested(preset: str) -> None:
    spot, taint, regular = NODES[preset]
    asked = {"spot": {"preset": preset}}
    pods = render_spot(head=asked, workerGroups=[GROUP | asked])
    for pod in pods.values():
        assert fits(pod, spot, taint)
        assert not fits(pod, regular)


@pytest.mark.parametrize("preset", PRESETS)
def test_pods_after_a_fallback_are_on_demand(preset: str) -> None:
    spot, taint, regular = NODES[preset]
    asked = {"spot": {"preset": preset, "fallback": {"afterNoRoom": "20m"}}}
    pods = render_spot(("head", "cpu"), head=asked, workerGroups=[GROUP | asked])
    for pod in pods.values():
        assert fits(pod, regular)
        assert not fits(pod, spot, taint)
    mixed = render_spot(("cpu",), head=asked, workerGroups=[GROUP | asked])
    assert fits(mixed["head"], spot, taint)
    assert fits(mixed["cpu"], regular)


def test_custom_spot_nodes_are_selected_by_labels() -> None:
    spot = {
        "nodeSelector": {"pool": "cheap"},
        "tolerations": [{"key": "cheap", "operator": "Exists", "effect": "NoSchedule"}],
        "fallback": {"afterDisruptions": 2, "nodeSelector": {"pool": "firm"}},
    }
    pods = render_spot(workerGroups=[GROUP | {"spot": spot}])
    assert fits(pods["cpu"], {"pool": "cheap"}, "cheap")
    assert fits(pods["head"], {"pool": "firm"})
    assert not fits(pods["head"], {"pool": "cheap"})
    fallen = render_spot(("cpu",), workerGroups=[GROUP | {"spot": spot}])
    assert fits(fallen["cpu"], {"pool": "firm"})
    assert not fits(fallen["cpu"], {"pool": "cheap"}, "cheap")
    assert "tolerations" not in fallen["cpu"]


def test_a_head_avoids_nodes_with_all_labels_of_a_spot_group() -> None:
    selector = {"pool": "cheap", "zone": "a"}
    groups = [
        GROUP | {"spot": {"nodeSelector": selector}},
        GROUP | {"name": "gpu", "spot": {"preset": "gke"}},
    ]
    head = render_spot(workerGroups=groups)["head"]
    assert fits(head, {"pool": "firm", "zone": "a"})
    assert fits(head, {"zone": "b", "pool": "cheap"})
    assert not fits(head, selector)
    assert not fits(head, {"pool": "firm", "cloud.google.com/gke-spot": "true"})


def test_labels_are_added_to_a_presets_labels() -> None:
    spot = {
        "preset": "karpenter",
        "nodeSelector": {"node.kubernetes.io/instance-type": "m6i.4xlarge"},
    }
    cpu = render_spot(workerGroups=[GROUP | {"spot": spot}])["cpu"]
    assert cpu["nodeSelector"] == {
        "karpenter.sh/capacity-type": "spot",
        "node.kubernetes.io/instance-type": "m6i.4xlarge",
    }


def test_without_spot_settings_no_placement_is_added() -> None:
    for pod in pods_of(render()).values():
        assert not {"nodeSelector", "tolerations", "affinity"} & pod["spec"].keys()


def test_node_settings_of_a_users_template_are_kept() -> None:
    template = {
        "spec": {
            "nodeSelector": {"zone": "a"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "arch", "operator": "Exists"}]}
                        ]
                    }
                }
            },
        }
    }
    asked = {"spot": {"preset": "gke"}, "podTemplate": template}
    pods = render_spot(head={"podTemplate": template}, workerGroups=[GROUP | asked])
    spot = {"zone": "a", "arch": "arm", "cloud.google.com/gke-spot": "true"}
    assert fits(pods["cpu"], spot, "cloud.google.com/gke-spot")
    assert fits(pods["cpu"], spot, "gpu")
    assert not fits(pods["cpu"], spot | {"zone": "b"})
    assert fits(pods["head"], {"zone": "a", "arch": "arm"})
    assert not fits(pods["head"], {"zone": "a"})
    assert not fits(pods["head"], spot)


def test_a_head_template_for_spot_nodes_is_kept() -> None:
    label = "cloud.google.com/gke-spot"
    template = {"spec": {"nodeSelector": {label: "true"}}}
    groups = [GROUP | {"spot": {"preset": "gke"}}]
    head = render_spot(head={"podTemplate": template}, workerGroups=groups)["head"]
    assert fits(head, {label: "true"})


ODD = st.recursive(
    st.none() | st.booleans() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(selector=ODD, tolerations=ODD, affinity=ODD, node=ODD, terms=ODD)
def test_a_template_of_any_shape_is_left_to_the_api_server(
    selector: Any, tolerations: Any, affinity: Any, node: Any, terms: Any
) -> None:
    ours = ({"key": "a", "operator": "DoesNotExist"},)
    choice = NodeChoice({"pool": "spot"}, ({"key": "pool", "operator": "Exists"},), (ours,))
    wrapped = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    for shape in (affinity, {"nodeAffinity": node}, wrapped):
        apply_choice(
            {"nodeSelector": selector, "tolerations": tolerations, "affinity": shape}, choice
        )
