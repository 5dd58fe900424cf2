"""Peers that may reach the pods of an attempt, as configured for the operator.

Peers and rules have the format of a NetworkPolicy and are copied unchanged; the API server
validates them. This module must not depend on the pods or ports of an attempt.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

# Parts of a Kubernetes NetworkPolicy: an entry of `from`, and an entry of `ingress` or `egress`.
Peer = dict[str, Any]
Rule = dict[str, Any]

# Restrict the peer as well as the port: a port that is open to all addresses would permit traffic
# to any server that listens on it.
CLUSTER_DNS: Rule = {
    "to": [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        }
    ],
    "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
}


class AttemptNetwork(BaseModel):
    """Settings of each attempt's NetworkPolicy, besides the rules for the attempt's own pods.

    An empty list of peers grants no access. In a NetworkPolicy, an empty `from` would grant access
    to all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    operator: tuple[Peer, ...] = Field(
        default=(), description="Peers that may connect to the driver's port: the operator's pod."
    )
    kuberay: tuple[Peer, ...] = Field(
        default=(), description="Peers that may connect to Ray's dashboard: KubeRay's pod."
    )
    closes: Literal["all", "driver"] = Field(
        default="all",
        description="Ports that are closed to other peers: all, or only the driver's.",
    )
    ingress: tuple[Rule, ...] = Field(
        default=(), description="Additional ingress rules of an attempt's pods."
    )
    egress: tuple[Rule, ...] | None = Field(
        default=None,
        description=(
            "Egress rules besides access to each other and DNS; None allows all egress. The rules "
            "also apply to checks and commands."
        ),
    )
    dns: tuple[Rule, ...] = Field(
        default=(CLUSTER_DNS,),
        description="Egress rules for DNS servers, if egress is restricted.",
    )
