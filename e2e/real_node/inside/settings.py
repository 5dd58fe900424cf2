"""Renders the configuration files of a node's programs, as text.

Only the snapshotter depends on the machine, and only the cgroup's name on the folder. This module
must not depend on how the programs are started.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from real_node import layout

Json = dict[str, Any]

# Control-plane users: program, name, groups. In real clusters, they authenticate with certificates.
USERS = (
    ("admin", "admin", "system:masters"),
    ("kube-controller-manager", "system:kube-controller-manager", ""),
    ("kube-scheduler", "system:kube-scheduler", ""),
    ("kube-proxy", "system:kube-proxy", ""),
    ("kubelet", f"system:node:{layout.NODE_NAME}", "system:nodes"),
    ("dns", "system:coredns", ""),
)

CONTAINERD = """\
version = 2
root = "{home}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]

[grpc]
address = "{socket}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
# Where the capability is missing, a container with a lower score than ours does not start.
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshotter}"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{home}/settings/cni"
"""

# The node has no upstream DNS server: names outside the cluster do not exist.
DNS = """\
.:53 {{
    bind {address}
    errors
    ready {address}:8181
    kubernetes {domain} in-addr.arpa {{
        kubeconfig {home}/settings/dns.kubeconfig
        ttl 2
    }}
}}
"""

RESOLVER = f"""\
search svc.{layout.CLUSTER_DOMAIN} {layout.CLUSTER_DOMAIN}
nameserver {layout.NODE_ADDRESS}
options ndots:5
"""

HOSTS = f"""\
127.0.0.1 localhost
::1 localhost
{layout.NODE_ADDRESS} {layout.NODE_NAME}
"""


def list_settings(
    cgroup: str, snapshotter: str, plugins: str, tokens: Mapping[str, str]
) -> dict[str, str]:
    """Return all configuration files, by their names within the folder.

    Args:
        cgroup: name of the pods' parent cgroup in each hierarchy.
        snapshotter: containerd's snapshotter, `overlayfs` or `native`.
        plugins: folder of CNI programs.
        tokens: login tokens of the users, by program.
    """
    home = str(layout.HOME)
    kubeconfigs = {
        f"{program}.kubeconfig": render(describe_user(program, token))
        for program, token in tokens.items()
    }
    return {
        "containerd.toml": CONTAINERD.format(
            home=home,
            socket=layout.CONTAINERD,
            pause=layout.PAUSE_IMAGE,
            snapshotter=snapshotter,
            plugins=plugins,
        ),
        "cni/10-bridge.conflist": render(describe_network(home)),
        "kubelet.json": render(describe_kubelet(cgroup)),
        "Corefile": DNS.format(
            address=layout.NODE_ADDRESS, domain=layout.CLUSTER_DOMAIN, home=home
        ),
        "resolv.conf": RESOLVER,
        "hosts": HOSTS,
        "tokens.csv": "".join(
            f'{tokens[program]},{name},{name},"{groups}"\n' for program, name, groups in USERS
        ),
        **kubeconfigs,
    }


def render(value: Json) -> str:
    """Render an object as JSON, which is also valid YAML."""
    return json.dumps(value, indent=1) + "\n"


def describe_user(program: str, token: str, authority: Json | None = None) -> Json:
    """Return the kubeconfig of a user.

    Args:
        authority: fields of the kubeconfig that contain the cluster's CA.
    """
    trust = authority or {"certificate-authority": f"{layout.HOME}/certificates/apiserver.crt"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "node",
        "contexts": [{"name": "node", "context": {"cluster": "node", "user": program}}],
        "clusters": [{"name": "node", "cluster": {"server": layout.SERVER, **trust}}],
        "users": [{"name": program, "user": {"token": token}}],
    }


def describe_network(home: str) -> Json:
    """Return the CNI configuration: one bridge, one address range, no route to other networks."""
    bridge: Json = {
        "type": "bridge",
        "bridge": layout.POD_LINK,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,  # lets a pod reach itself through its Service
        "ipam": {
            "type": "host-local",
            "dataDir": f"{home}/cni",
            "ranges": [[{"subnet": layout.POD_RANGE}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def describe_kubelet(cgroup: str) -> Json:
    """Return the kubelet's configuration, without reservations, cleanup, or eviction.

    Otherwise, the node's behavior would depend on the machine's disk.
    """
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": True},  # reachable only from the node's own network
            "webhook": {"enabled": False},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "enforceNodeAllocatable": ["pods"],
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "containerRuntimeEndpoint": f"unix://{layout.CONTAINERD}",
        "clusterDNS": [layout.NODE_ADDRESS],
        "clusterDomain": layout.CLUSTER_DOMAIN,
        "resolvConf": f"{layout.HOME}/settings/resolv.conf",
        "podLogsDir": f"{layout.LOGS}/pods",
        "maxPods": 60,
        "oomScoreAdj": 0,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "5s",
        "nodeStatusReportFrequency": "1m",
        "nodeLeaseDurationSeconds": 20,
        "syncFrequency": "10s",
        "fileCheckFrequency": "0s",
        "httpCheckFrequency": "0s",
    }
