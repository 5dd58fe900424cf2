"""Computes node constraints for an attempt's pods if spot nodes are used.

Each cloud marks spot nodes with its own label; a preset contains the label and the taint. If only
worker groups use spot nodes, the head is kept off them, because losing the head ends the attempt.
This module must not depend on the rules for the fallback from spot nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from strandline_api.spec.pods.templates import Spot, SpotFallback, Toleration
from strandline_api.spec.ray_cluster import RayCluster, RayNode
from strandline_operator.render.order import Role

HEAD = Role.HEAD.value
Expression = dict[str, Any]
Json = dict[str, Any]
_MOST_TERMS = 32
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Preset:
    """How a cloud marks its nodes.

    Attributes:
        label, value: label of a spot node, and its value.
        on_demand: value of that label on other nodes; empty if other nodes may lack the label.
        is_tainted: whether spot nodes have, or may have, a taint of the same name and value.
    """

    label: str
    value: str
    on_demand: str = ""
    is_tainted: bool = False


PRESETS: Mapping[str, Preset] = {
    "gke": Preset("cloud.google.com/gke-spot", "true", is_tainted=True),
    "eks": Preset("eks.amazonaws.com/capacityType", "SPOT", on_demand="ON_DEMAND"),
    "karpenter": Preset("karpenter.sh/capacity-type", "spot", on_demand="on-demand"),
    # On AKS, regular node pools have the label only if a user has set it.
    "aks": Preset("kubernetes.azure.com/scalesetpriority", "spot", is_tainted=True),
}


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """Node constraints of a pod.

    Attributes:
        selector: required labels of the node.
        tolerations: tolerations in pod format.
        terms: terms of the node affinity. The node must match one term; empty for no constraint.
    """

    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Json, ...] = ()
    terms: tuple[tuple[Expression, ...], ...] = ()


def list_spot(ray: RayCluster) -> dict[str, Spot]:
    """Return the spot settings by pod group (`head` or worker group), for groups that have any."""
    nodes: dict[str, RayNode] = {HEAD: ray.head}
    nodes |= {group.name: group for group in ray.worker_groups}
    return {name: node.spot for name, node in nodes.items() if node.spot is not None}


def list_fallbacks(ray: RayCluster) -> dict[str, SpotFallback]:
    """Return the fallback settings by pod group, for groups that have any."""
    spots = list_spot(ray).items()
    return {name: spot.fallback for name, spot in spots if spot.fallback is not None}


def choose_nodes(ray: RayCluster, on_demand: Collection[str], group: str | None) -> NodeChoice:
    """Return the node constraints of a pod.

    Args:
        on_demand: pod groups (`head` or worker groups) that use on-demand nodes instead of spot
            nodes.
        group: worker group, or None for the head and the submitter, which use the same constraints.
    """
    groups: dict[str, RayNode] = {each.name: each for each in ray.worker_groups}
    spot = ray.head.spot if group is None else groups[group].spot
    if spot is not None:
        return _leave_spot(spot) if (group or HEAD) in on_demand else _use_spot(spot)
    return _avoid_spot(ray) if group is None else NodeChoice()


def apply_choice(spec: Json, choice: NodeChoice) -> None:
    """Add node constraints to a pod's spec. The user's own labels take precedence."""
    labels = _read_mapping(spec.get("nodeSelector"))
    selector = {**choice.selector, **labels}
    if selector:
        spec["nodeSelector"] = selector
    tolerations = spec.get("tolerations")
    tolerations = tolerations if isinstance(tolerations, list | tuple) else []
    missing = [each for each in choice.tolerations if each not in tolerations]
    if missing:
        spec["tolerations"] = [*tolerations, *missing]
    _require(spec, choice.terms, labels)


def _require(
    spec: Json, terms: Iterable[tuple[Expression, ...]], selector: Mapping[str, Any]
) -> None:
    """Combine the operator's node affinity terms with the user's terms."""
    affinity = _read_mapping(spec.get("affinity"))
    node = _read_mapping(affinity.get("nodeAffinity"))
    own = _read_mapping(node.get(_REQUIRED)).get("nodeSelectorTerms")
    own = [each for each in own if isinstance(each, Mapping)] if isinstance(own, list) else []
    keys = selector.keys() | {
        expression.get("key") for term in own for expression in _read_expressions(term)
    }
    ours = [term for term in terms if not any(each["key"] in keys for each in term)]
    if not ours:
        return
    # Terms of a list are alternatives. To require one of the user's terms and one of the
    # operator's, combine each with each.
    joined = [
        {**theirs, "matchExpressions": [*_read_expressions(theirs), *term]}
        for theirs in own or [{}]
        for term in ours
    ]
    required = {_REQUIRED: {"nodeSelectorTerms": joined}}
    spec["affinity"] = {**affinity, "nodeAffinity": {**node, **required}}


def _use_spot(spot: Spot) -> NodeChoice:
    selector, tolerations = dict(spot.node_selector), _render_tolerations(spot.tolerations)
    if spot.preset is None:
        return NodeChoice(selector, tolerations)
    preset = PRESETS[spot.preset]
    taint = {
        "key": preset.label,
        "operator": "Equal",
        "value": preset.value,
        "effect": "NoSchedule",
    }
    tainted = (taint,) if preset.is_tainted else ()
    return NodeChoice({preset.label: preset.value, **selector}, (*tainted, *tolerations))


def _leave_spot(spot: Spot) -> NodeChoice:
    """Return the constraints for on-demand nodes, which replace spot nodes."""
    fallback = spot.fallback
    selector = dict(fallback.node_selector) if fallback else {}
    tolerations = _render_tolerations(fallback.tolerations) if fallback else ()
    preset = PRESETS[spot.preset] if spot.preset is not None else None
    if preset is not None and preset.on_demand:
        return NodeChoice({preset.label: preset.on_demand, **selector}, tolerations)
    return NodeChoice(selector, tolerations, _exclude(spot))


def _avoid_spot(ray: RayCluster) -> NodeChoice:
    """Return constraints that allow all nodes except the worker groups' spot nodes."""
    terms: list[tuple[Expression, ...]] = [()]
    for spot in dict.fromkeys(_identify(group.spot) for group in ray.worker_groups if group.spot):
        excluded = _exclude_labels(dict(spot))
        # A node must lack at least one label of each group's selector, so the number of terms
        # multiplies. Stop before there are too many terms.
        if len(terms) * len(excluded) <= _MOST_TERMS:
            terms = [(*term, *more) for term in terms for more in excluded]
    return NodeChoice(terms=tuple(term for term in terms if term))


def _identify(spot: Spot) -> tuple[tuple[str, str], ...]:
    """Return the labels that identify spot nodes. For a preset, only the preset's label."""
    if spot.preset is not None:
        preset = PRESETS[spot.preset]
        return ((preset.label, preset.value),)
    return tuple(sorted(spot.node_selector.items()))


def _exclude(spot: Spot) -> tuple[tuple[Expression, ...], ...]:
    return _exclude_labels(dict(_identify(spot)))


def _exclude_labels(labels: Mapping[str, str]) -> tuple[tuple[Expression, ...], ...]:
    """Return terms that match nodes on which one of the labels is missing or has another value."""
    return tuple(
        ({"key": label, "operator": "DoesNotExist"},)
        if label == PRESETS["gke"].label
        else ({"key": label, "operator": "NotIn", "values": [value]},)
        for label, value in labels.items()
    )


def _render_tolerations(tolerations: Iterable[Toleration]) -> tuple[Json, ...]:
    return tuple(
        each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in tolerations
    )


def _read_expressions(term: Mapping[str, Any]) -> list[Expression]:
    expressions = term.get("matchExpressions")
    expressions = expressions if isinstance(expressions, list) else []
    return [each for each in expressions if isinstance(each, dict)]


def _read_mapping(value: object) -> Json:
    return dict(value) if isinstance(value, Mapping) else {}
