"""Names and addresses inside a node's namespaces, which are the same for every node.

Nodes have separate networks and `/run` folders, so two nodes do not conflict. The state folder is
mounted at a short fixed path, because socket paths have a length limit. This module must not depend
on the folder's path outside.
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
# Own cache for kubectl. All nodes have the same address, so the default cache would mix them up.
KUBECTL_CACHE = HOME / "kubectl-cache"

# Paths below the node's folder.
STATE = "state"
LOG_FOLDER = "logs"
VOLUMES = "state/volumes"
KUBECONFIG = "admin.kubeconfig"
LOCK = "lock"
ENVIRONMENT = "state/environment.json"
ENDED = "state/ended"  # exists if the first process was not killed, so its exit code is valid

# Paths below the state folder.
SETTINGS = "settings"
PIDS = "pids"
STOPPED = "stopped"

# Environment variables of a node's programs and commands: the node's folder, and its main binary.
FOLDER_VARIABLE = "STRANDLINE_NODE"
BINARY_VARIABLE = "STRANDLINE_NODE_BINARY"


def name_cgroup(folder: Path) -> str:
    """Return the name of the parent cgroup of a folder's node, used in each hierarchy."""
    digest = hashlib.sha256(str(folder).encode()).hexdigest()
    return f"strandline-node-{digest[:10]}"
