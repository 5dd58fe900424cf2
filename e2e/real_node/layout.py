"""Names and addresses of a node, as they are inside its namespaces; the same for every node.

A node has its own network and its own `/run`, so two of them don't meet. Its folder of state is
mounted at a short fixed place there, since the paths of sockets have a limit. This room must not
know where that folder is outside.
"""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath

NODE_NAME = "node0"
NODE_ADDRESS = "10.250.0.1"
SERVICE_RANGE = "10.0.0.0/24"
POD_RANGE = "10.244.0.0/24"
CLUSTER_DOMAIN = "cluster.local"
SERVER = f"https://{NODE_ADDRESS}:6443"
NODE_LINK = "sl-node"
POD_LINK = "sl-pods"
PAUSE_IMAGE = "localhost/strandline-pause:1"
STORAGE_CLASS = "by-hand"

HOME = PurePosixPath("/run/node")
CONTAINERD = PurePosixPath("/run/containerd/containerd.sock")
LOGS = PurePosixPath("/var/log")
# All nodes have one address, and kubectl would take one for another by it.
KUBECTL_CACHE = HOME / "kubectl-cache"

# Folders below the one that the user names.
STATE = "state"
LOG_FOLDER = "logs"
VOLUMES = "state/volumes"
KUBECONFIG = "admin.kubeconfig"
LOCK = "lock"
ENVIRONMENT = "state/environment.json"
ENDED = "state/ended"  # the first process has come to an end by itself; its exit code means it

# Folders below the folder of state.
SETTINGS = "settings"
PIDS = "pids"
STOPPED = "stopped"

# Variables for programs and commands on a node: the folder that the user named.
FOLDER_VARIABLE = "STRANDLINE_NODE"
BINARY_VARIABLE = "STRANDLINE_NODE_BINARY"


def name_cgroup(folder: Path) -> str:
    """Name the one cgroup, in each hierarchy, below which the node of a folder keeps its pods."""
    digest = hashlib.sha256(str(folder).encode()).hexdigest()
    return f"strandline-node-{digest[:10]}"
