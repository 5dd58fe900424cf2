"""Lists the programs of a node with their arguments, in the order of their start.

This module must not depend on how the programs are started or on their output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from real_node import layout

SETTINGS = layout.HOME / layout.SETTINGS
ETCD = "http://127.0.0.1:2379"
SERVICE = f"kubernetes.default.svc.{layout.CLUSTER_DOMAIN}"

ETCD_FLAGS = {
    "data-dir": f"{layout.HOME}/etcd",
    "listen-client-urls": ETCD,
    "advertise-client-urls": ETCD,
    "listen-peer-urls": "http://127.0.0.1:2380",
    "unsafe-no-fsync": "true",
    "log-level": "warn",
}

# The default admission plugins are active, including Pod Security.
SERVER_FLAGS = {
    "etcd-servers": ETCD,
    "bind-address": "0.0.0.0",  # noqa: S104 - of the node's own network
    "advertise-address": layout.NODE_ADDRESS,
    "cert-dir": f"{layout.HOME}/certificates",
    "token-auth-file": f"{SETTINGS}/tokens.csv",
    "authorization-mode": "Node,RBAC",
    "enable-admission-plugins": "NodeRestriction",
    "service-cluster-ip-range": layout.SERVICE_RANGE,
    "service-account-issuer": f"https://{SERVICE}",
    "service-account-key-file": f"{layout.HOME}/accounts.key",
    "service-account-signing-key-file": f"{layout.HOME}/accounts.key",
    "kubelet-preferred-address-types": "InternalIP",
    "allow-privileged": "true",
    "event-ttl": "6h",
    # Seconds until pods are removed from a lost node. The default of five minutes is too long for
    # tests.
    "default-not-ready-toleration-seconds": "10",
    "default-unreachable-toleration-seconds": "10",
}

# The controllers that need a cloud or a second node are disabled.
CONTROLLER_FLAGS = {
    "kubeconfig": f"{SETTINGS}/kube-controller-manager.kubeconfig",
    "controllers": "*,-node-ipam-controller,-node-route-controller,-service-lb-controller",
    "use-service-account-credentials": "true",
    "service-account-private-key-file": f"{layout.HOME}/accounts.key",
    "root-ca-file": f"{layout.HOME}/certificates/apiserver.crt",
    "leader-elect": "false",
    "secure-port": "0",
    "node-monitor-period": "2s",
    "node-monitor-grace-period": "20s",
    "pvclaimbinder-sync-period": "5s",
    "kube-api-qps": "200",
    "kube-api-burst": "400",
}

SCHEDULER_FLAGS = {
    "kubeconfig": f"{SETTINGS}/kube-scheduler.kubeconfig",
    "leader-elect": "false",
    "secure-port": "0",
    "kube-api-qps": "200",
    "kube-api-burst": "400",
}

KUBELET_FLAGS = {
    "config": f"{SETTINGS}/kubelet.json",
    "kubeconfig": f"{SETTINGS}/kubelet.kubeconfig",
    "hostname-override": layout.NODE_NAME,
    "node-ip": layout.NODE_ADDRESS,
    "root-dir": f"{layout.HOME}/kubelet",
    "cert-dir": f"{layout.HOME}/kubelet-certificates",
}

PROXY_FLAGS = {
    "kubeconfig": f"{SETTINGS}/kube-proxy.kubeconfig",
    "hostname-override": layout.NODE_NAME,
    "proxy-mode": "nftables",
    "cluster-cidr": "10.244.0.0/16",
    # 0 leaves the machine's own settings unchanged.
    "conntrack-max-per-core": "0",
    "conntrack-tcp-timeout-established": "0",
    "conntrack-tcp-timeout-close-wait": "0",
    "oom-score-adj": "0",
}

CLUSTER: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "etcd": ETCD_FLAGS,
        "kube-apiserver": SERVER_FLAGS,
        "kube-controller-manager": CONTROLLER_FLAGS,
        "kube-scheduler": SCHEDULER_FLAGS,
        "kubelet": KUBELET_FLAGS,
        "kube-proxy": PROXY_FLAGS,
    }
)
# Programs that start first. The remaining programs would exit if no server were running.
FIRST = ("containerd", "etcd", "kube-apiserver")
# DNS starts last: it has no rights before the first objects exist, and it retries slowly.
LAST = "dns"


@dataclass(frozen=True, slots=True)
class Program:
    """A long-running program with its name and its command."""

    name: str
    command: tuple[str, ...]


def list_programs(cluster: str, dns: str) -> tuple[Program, ...]:
    """Return all programs: `FIRST` at the front, `LAST` at the end.

    Args:
        cluster: path of the binary with Kubernetes and etcd.
        dns: path of the DNS server.
    """
    containerd = ("containerd", "--config", f"{SETTINGS}/containerd.toml")
    corefile = ("-conf", f"{SETTINGS}/Corefile")
    return (
        Program("containerd", containerd),
        *(Program(name, (cluster, name, *render(flags))) for name, flags in CLUSTER.items()),
        Program(LAST, (dns, *corefile)),
    )


def render(flags: Mapping[str, str]) -> tuple[str, ...]:
    """Render flags as arguments."""
    return tuple(f"--{name}={value}" for name, value in flags.items())
