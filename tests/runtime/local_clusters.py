"""Clusters of Ray on this machine, for programs whose nodes come and go.

How a cluster starts is not what such a program looks at, so it is waited for as the product waits
for its own, and begun once more where it never answers.
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
_SECONDS = 90.0  # Ray's own wait, 30 s, is too short where others fill the machine


class PatientCluster(Cluster):  # type: ignore[misc] # Ray's own has no types
    """A cluster whose nodes may be slow to start, and may fail to."""

    def add_node(self, wait: bool = True, **options: Any) -> Any:
        """Add a node, as Ray's own does, with more time and more than one try."""
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
    """Start a cluster of one node, and connect to it.

    Args:
        cpus: of its node.
        options: more of the node's.

    Yields:
        The cluster, and a folder that is removed with it.
    """
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    path = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    # Else whoever starts a Ray of their own meanwhile would be led to this one.
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
