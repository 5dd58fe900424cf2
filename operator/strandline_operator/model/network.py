"""Which peers may reach the pods of an attempt, by choice of the operator's installation.

Peers and rules are those of a NetworkPolicy and are handed on as they were given: the API server
checks them. This room must not know which pods or ports an attempt has.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

# As in Kubernetes' NetworkPolicy: an entry of `from`, and one of `ingress` or `egress`.
Peer = dict[str, Any]
Rule = dict[str, Any]

# A port that is open to everywhere would be a way out, to any server that listens there.
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
    """What the NetworkPolicy of each attempt says, besides what its own pods need.

    Peers of none name none: an empty list opens no door, other than an empty `from` would.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    operator: tuple[Peer, ...] = Field(
        default=(), description="Peers that may ask the driver's pages: the operator's own pod."
    )
    kuberay: tuple[Peer, ...] = Field(
        default=(), description="Peers that may ask Ray's dashboard: KubeRay's pod."
    )
    closes: Literal["all", "driver"] = Field(
        default="all", description="Ports that are closed: all, or the driver's alone."
    )
    ingress: tuple[Rule, ...] = Field(
        default=(), description="More rules of what may reach an attempt's pods."
    )
    egress: tuple[Rule, ...] | None = Field(
        default=None,
        description=(
            "All that pods may reach besides each other and DNS; None leaves that way open. It "
            "holds for checks and commands too."
        ),
    )
    dns: tuple[Rule, ...] = Field(
        default=(CLUSTER_DNS,),
        description="Rules of who answers for names, where the way out is not open.",
    )
