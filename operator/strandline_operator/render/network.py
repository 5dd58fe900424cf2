"""The NetworkPolicy of an attempt: its pods talk to each other, and few others to them.

Ray runs what anyone asks of it, so whoever reaches its ports or its dashboard can do what the
attempt can. See docs/design/2026-11-25-a-policy-for-each-attempt.md.
"""

from __future__ import annotations

from typing import Any

from strandline_api.names import ATTEMPT_LABEL, PIPELINE_UID_LABEL, ROLE_LABEL
from strandline_operator.model.network import AttemptNetwork, Peer, Rule
from strandline_operator.model.plan import Manifest
from strandline_operator.render.order import Order, Role
from strandline_operator.render.pods import RAY_PORTS

_DNS_PORT = 53


def render_network(order: Order, metadata: dict[str, Any]) -> Manifest | None:
    """Render the policy of all pods of an attempt; None where none is wanted.

    What it does not name is closed, but for the node's own probes, which no policy stops.
    """
    network = order.limits.attempt_network
    if network is None:
        return None
    spec: dict[str, Any] = {
        "podSelector": {"matchLabels": _label_own(order)},
        "policyTypes": ["Ingress"],
        "ingress": _render_ingress(order, network),
    }
    if network.egress is not None:
        spec["policyTypes"] = ["Ingress", "Egress"]
        spec["egress"] = _render_egress(order, network.egress)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": spec,
    }


def _render_ingress(order: Order, network: AttemptNetwork) -> list[Rule]:
    dashboard = RAY_PORTS["dashboard"]
    own = _label_own(order)
    roles = {"key": ROLE_LABEL, "operator": "In", "values": [Role.HEAD.value, Role.WORKER.value]}
    # Ray chooses most of its ports when it starts, so between its nodes all of them are open.
    nodes = {"podSelector": {"matchLabels": own, "matchExpressions": [roles]}}
    submitter = {"podSelector": {"matchLabels": own | {ROLE_LABEL: Role.SUBMITTER.value}}}
    rules = [
        {"from": [nodes]},
        _open([submitter, *network.kuberay], dashboard),
        *([_open([*network.operator], order.limits.driver_port)] if network.operator else []),
    ]
    return [*rules, *network.ingress]


def _render_egress(order: Order, more: tuple[Rule, ...]) -> list[Rule]:
    dns = [{"protocol": protocol, "port": _DNS_PORT} for protocol in ("UDP", "TCP")]
    # Where names are resolved differs: by pods of the cluster, or by each node.
    return [
        {"to": [{"podSelector": {"matchLabels": _label_own(order)}}]},
        {"ports": dns},
        *more,
    ]


def _open(peers: list[Peer], port: int) -> Rule:
    return {"from": peers, "ports": [{"protocol": "TCP", "port": port}]}


def _label_own(order: Order) -> dict[str, str]:
    """Return what the attempt's pods have and no other pod: users' templates can't change it."""
    return {name: order.labels[name] for name in (PIPELINE_UID_LABEL, ATTEMPT_LABEL)}
