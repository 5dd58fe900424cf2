"""Ray clusters on this machine, for programs that add and remove nodes.

The start of a cluster is not under test, so it waits as long as the product waits, and is repeated
if the cluster never answers.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cluster_utils import Cluster

from strandline.engine.ray.local.start import kill_trees, waiting_for_node

STORE = 150_000_000
_TRIES = 3
_SECONDS = 90.0  # Ray's own 30 s are too short on a busy machine


class PatientCluster(Cluster):  # type: ignore[misc] # Ray's own has no types
    """A cluster whose nodes may start slowly, and may fail to start."""

    def add_node(self, wait: bool = True, **options: Any) -> Any:
        """Add a node as in the base class, with a longer wait and several tries."""
        for tries_left in reversed(range(_TRIES)):
            before = set(psutil.Process().children())
            try:
                with waiting_for_node(_SECONDS):
                    return super().add_node(wait, **options)
            except Exception:
                kill_trees(set(psutil.Process().children()) - before)
                if not tries_left:
                    raise
        raise AssertionError  # the last try returns or raises


@contextmanager
def join_local_cluster(cpus: int, **options: Any) -> Iterator[tuple[PatientCluster, Path]]:
    """Start a cluster with one node, and connect to it.

    Args:
        cpus: CPUs of the node.
        options: more options of the node.

    Yields:
        The cluster, and a folder that is removed at the end.
    """
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    path = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    # Do not announce the cluster. Programs that start their own Ray would connect to it.
    ray._private.utils.write_ray_address = lambda *_: None
    cluster = PatientCluster()
    try:
        cluster.add_node(
            num_cpus=cpus,
            object_store_memory=STORE,
            include_dashboard=False,
            temp_dir=str(folder / "ray"),
            **options,
        )
        ray.init(cluster.address, logging_level=logging.ERROR, log_to_driver=False)
        yield cluster, folder
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
