"""Evaluates Kubernetes NetworkPolicies: whether one pod may connect to another.

The functions are pure and follow the API description: a pod that no policy selects is open. A
selected pod accepts only connections that at least one policy allows. The module must not depend on
the owner of the policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

Json = dict[str, Any]
Labels = Mapping[str, str]
# The API server sets this label on each namespace and rejects any other value.
NAMESPACE_LABEL = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An end of a connection: a pod, or an outside address if the namespace is empty."""

    namespace: str = ""
    labels: Labels = field(default_factory=dict)
    ip: str = "10.0.0.1"


def is_allowed(
    policies: Iterable[Json], source: Endpoint, target: Endpoint, port: int, protocol: str = "TCP"
) -> bool:
    """Return True if the policies allow a connection at both ends."""
    known = tuple(policies)
    return all(
        _passes(known, own, other, direction, port, protocol)
        for direction, own, other in (("Ingress", target, source), ("Egress", source, target))
    )


def _passes(
    policies: tuple[Json, ...],
    own: Endpoint,
    other: Endpoint,
    direction: str,
    port: int,
    protocol: str,
) -> bool:
    isolating = [policy for policy in policies if _isolates(policy, own, direction)]
    peers = "from" if direction == "Ingress" else "to"
    return not isolating or any(
        _opens(rule, peers, policy["metadata"]["namespace"], other, port, protocol)
        for policy in isolating
        for rule in policy["spec"].get(direction.lower()) or ()
    )


def _isolates(policy: Json, own: Endpoint, direction: str) -> bool:
    spec = policy["spec"]
    return (
        direction in spec["policyTypes"]
        and own.namespace == policy["metadata"]["namespace"]
        and _selects(spec["podSelector"], own.labels)
    )


def _opens(
    rule: Json, peers: str, namespace: str, other: Endpoint, port: int, protocol: str
) -> bool:
    named, ports = rule.get(peers) or (), rule.get("ports") or ()
    # A rule without peers matches every peer, and a rule without ports matches every port.
    return (not named or any(_is_peer(peer, namespace, other) for peer in named)) and (
        not ports or any(_has_port(each, port, protocol) for each in ports)
    )


def _has_port(entry: Json, port: int, protocol: str) -> bool:
    if entry.get("protocol", "TCP") != protocol:
        return False
    if "port" not in entry:
        return True
    first = int(entry["port"])
    return first <= port <= int(entry.get("endPort", first))


def _is_peer(peer: Json, namespace: str, other: Endpoint) -> bool:
    if "ipBlock" in peer:
        address, block = ip_address(other.ip), peer["ipBlock"]
        return address in ip_network(block["cidr"]) and not any(
            address in ip_network(each) for each in block.get("except") or ()
        )
    if not other.namespace:
        return False
    own = {NAMESPACE_LABEL: other.namespace}
    is_there = (
        _selects(peer["namespaceSelector"], own)
        if "namespaceSelector" in peer
        else other.namespace == namespace
    )
    return is_there and _selects(peer.get("podSelector") or {}, other.labels)


def _selects(selector: Json, labels: Labels) -> bool:
    wanted: Labels = selector.get("matchLabels") or {}
    return all(labels.get(name) == value for name, value in wanted.items()) and all(
        _fits(expression, labels) for expression in selector.get("matchExpressions") or ()
    )


def _fits(expression: Json, labels: Labels) -> bool:
    value, operator = labels.get(expression["key"]), str(expression["operator"])
    if operator in {"Exists", "DoesNotExist"}:
        return (value is not None) == (operator == "Exists")
    values: list[str] = expression["values"]
    return (value in values) == (operator == "In")
