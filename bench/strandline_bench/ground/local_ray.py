"""A local Ray cluster, the same for all compared products."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strandline.engine.ray.local.start import start_local, stop_local
from strandline_bench.ground.folders import join_python_path

_STORE_BYTES = 400_000_000


@contextmanager
def started_ray(
    folder: Path,
    cpus: int | None = None,
    store: int = _STORE_BYTES,
    *,
    has_dashboard: bool = False,
    has_spilling: bool = True,
) -> Iterator[None]:
    """Start a Ray cluster with this machine's cores and the benchmarks' modules.

    Args:
        cpus: logical CPUs, or None for the number of cores.
        store: bytes of the object store.
        has_dashboard: whether to start the server for cluster state queries.
        has_spilling: whether a full object store spills to disk; otherwise the run fails.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    before = os.environ.get("PYTHONPATH")
    # Workers inherit the folder of a driver script, but not the folder of a test.
    os.environ["PYTHONPATH"] = join_python_path()
    start_local(
        cpus or len(os.sched_getaffinity(0)),
        folder,
        include_dashboard=has_dashboard,
        object_store_memory=store,
        _system_config={"automatic_object_spilling_enabled": has_spilling},
    )
    try:
        yield
    finally:
        stop_local()
        os.environ.pop("PYTHONPATH")
        os.environ |= {"PYTHONPATH": before} if before else {}
