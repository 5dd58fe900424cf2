"""Recognizes spot nodes, and pods that request them.

Clouds and tools use different labels, and some also use a taint with the label's name. This module
must not depend on what follows from spot capacity.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

_YES = frozenset({"true"})
_SPOT = frozenset({"spot"})
# Values are compared in lower case: EKS writes `SPOT`, others write `spot`.
SPOT_LABELS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "cloud.google.com/gke-spot": _YES,
        "cloud.google.com/gke-preemptible": _YES,
        "cloud.google.com/gke-provisioning": _SPOT | {"preemptible"},
        "eks.amazonaws.com/capacityType": _SPOT,
        "karpenter.sh/capacity-type": _SPOT,
        "kubernetes.azure.com/scalesetpriority": _SPOT,
    }
)
# Toleration effects that show a request for spot nodes; an empty effect means all effects. A
# PreferNoSchedule taint keeps no pod away, so tolerating that effect shows no intent.
_KEEPING_AWAY = frozenset({"", "NoSchedule", "NoExecute"})


def is_spot(labels: Mapping[str, object]) -> bool:
    """Return True if the labels of a node, or of a node selector, mean spot capacity."""
    return any(_is_meant(name, labels.get(name)) for name in SPOT_LABELS)


def asks_for_spot(pod_spec: Mapping[str, object]) -> bool:
    """Return True if a pod requests spot by selector, affinity, or toleration of the spot taint.

    Malformed parts of the pod's spec count as missing.
    """
    if is_spot(_mapping(pod_spec.get("nodeSelector"))):
        return True
    terms = list(_list_terms(pod_spec))
    # A pod can be placed by any one term, so all terms must require spot nodes.
    if terms and all(any(map(_requires_spot, _mappings(term))) for term in terms):
        return True
    return any(map(_tolerates_spot, _mappings(pod_spec.get("tolerations"))))


def _list_terms(pod_spec: Mapping[str, object]) -> Iterator[object]:
    affinity = _mapping(_mapping(pod_spec.get("affinity")).get("nodeAffinity"))
    required = _mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    for term in _mappings(required.get("nodeSelectorTerms")):
        yield term.get("matchExpressions")


def _requires_spot(expression: Mapping[str, object]) -> bool:
    name, values = expression.get("key"), expression.get("values")
    if not isinstance(name, str) or name not in SPOT_LABELS or expression.get("operator") != "In":
        return False
    # If the values include on-demand nodes, the expression does not require spot.
    return isinstance(values, list) and bool(values) and all(_is_meant(name, v) for v in values)


def _tolerates_spot(toleration: Mapping[str, object]) -> bool:
    name = toleration.get("key")
    if not isinstance(name, str) or name not in SPOT_LABELS:
        return False
    # A toleration without effect matches all effects.
    is_taint = toleration.get("effect", "") in _KEEPING_AWAY
    exists = toleration.get("operator") == "Exists"
    return is_taint and (exists or _is_meant(name, toleration.get("value")))


def _is_meant(name: str, value: object) -> bool:
    return isinstance(value, str) and value.lower() in SPOT_LABELS[name]


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> list[Mapping[str, object]]:
    entries = value if isinstance(value, list) else []
    return [entry for entry in entries if isinstance(entry, Mapping)]
