"""A program that starts a Ray of two nodes on this machine. Each line of input kills a node.

A process can connect to only one Ray, so this Ray needs a separate process.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

STORE = 100_000_000


def main() -> None:
    """Print the address, then kill a node per line of standard input."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    # Do not publish the address, so that other local Ray clients do not connect to this Ray.
    ray._private.utils.write_ray_address = lambda *_: None
    cluster = Cluster()
    try:
        cluster.add_node(
            num_cpus=1,
            object_store_memory=STORE,
            include_dashboard=False,
            temp_dir=str(folder),
            _system_config={"health_check_period_ms": 1000, "health_check_failure_threshold": 8},
        )
        node = cluster.add_node(num_cpus=1, object_store_memory=STORE)
        print(json.dumps(cluster.address), file=answers, flush=True)
        while sys.stdin.readline():
            cluster.remove_node(node, allow_graceful=False)
            node = cluster.add_node(num_cpus=1, object_store_memory=STORE)
            print(json.dumps("lost"), file=answers, flush=True)
    finally:
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
